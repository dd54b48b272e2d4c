/* Clients: `load repeat PORT CONNECTIONS SECONDS RATE` or `load hold|quiet PORT CONNECTIONS`.
 *
 * The request stands on standard input, behind a line with its length; each "CONV0000" in it becomes
 * one of 64 conversations, each "TURN00000000" the number of the request. `repeat` asks on each
 * connection again when the reply is whole (RATE 0), or so often a second on whichever is free, and
 * prints counts as JSON. `hold` opens a request on each connection, prints "open" when all got a
 * byte (`quiet`: when all are sent), and closes all at the next line of standard input.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD, SIZE, SIZE_END, DATA, DATA_END, TRAILER }; /* where in a reply */

struct conn {
    int fd, busy, place, used, match, ends, chunked;
    long length, began;
    char head[8192];
};

static struct conn *all;
static int count, epoll, conversations = 64;
static char *request;
static int size, conv_at = -1, turn_at = -1;
static long replies, events, errors, refused, turn;
static double *took;
static long tooks, room;
static struct sockaddr_in place = {.sin_family = AF_INET};

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void read_request(void) {
    if (scanf("%d%*c", &size) != 1) exit(2);
    request = malloc(size + 1);
    if (fread(request, 1, size, stdin) != (size_t)size) exit(2);
    request[size] = 0;
    char *at = memmem(request, size, "CONV0000", 8);
    if (at) conv_at = at - request;
    at = memmem(request, size, "TURN00000000", 12);
    if (at) turn_at = at - request;
}

static void number(char *at, int digits, long value) {
    for (; digits--; value /= 10) at[digits] = '0' + value % 10;
}

static int dial(struct conn *c) {
    int one = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (void *)&place, sizeof place)) {
        close(c->fd);
        c->fd = -1;
        errors++;
        return -1;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    return 0;
}

static void hang_up(struct conn *c) {
    close(c->fd);
    c->fd = -1;
    c->busy = 0;
}

static void ask(struct conn *c, long began) {
    int sent = 0;
    if (c->fd < 0 && dial(c)) return;
    if (conv_at >= 0) number(request + conv_at + 4, 4, turn % conversations);
    if (turn_at >= 0) number(request + turn_at + 4, 8, turn);
    turn++;
    c->busy = 1;
    c->began = began;
    c->place = HEAD;
    c->used = c->match = c->ends = c->chunked = 0;
    c->length = 0;
    while (sent < size) {
        int got = send(c->fd, request + sent, size - sent, MSG_NOSIGNAL);
        if (got >= 0) sent += got;
        else if (errno == EAGAIN) usleep(50);
        else {
            errors++;
            hang_up(c);
            return;
        }
    }
}

static void read_head(struct conn *c) {
    char *line = strcasestr(c->head, "\ncontent-length:");
    c->chunked = strcasestr(c->head, "\ntransfer-encoding: chunked") != NULL;
    c->ends = strcasestr(c->head, "\nconnection: close") != NULL;
    c->length = line ? atol(line + 16) : 0;
    if (strncmp(c->head + 9, "200", 3)) refused++;
    c->place = c->chunked ? SIZE : DATA;
    if (c->chunked) c->length = 0;
}

/* Take one byte of what frames the chunks; return whether the reply is over. */
static int read_frame(struct conn *c, char byte) {
    switch (c->place) {
    case SIZE:
        if (byte == '\n') c->place = c->length ? DATA : TRAILER;
        else if (byte == '\r' || byte == ';') c->place = SIZE_END;
        else c->length = c->length * 16 + (byte <= '9' ? byte - '0' : (byte | 32) - 'a' + 10);
        return 0;
    case SIZE_END:
        if (byte == '\n') c->place = c->length ? DATA : TRAILER;
        return 0;
    case DATA_END:
        if (byte == '\n') c->place = SIZE;
        return 0;
    default:
        return byte == '\n';
    }
}

static void count_events(struct conn *c, const char *data, int n) {
    static const char mark[] = "data: ";
    for (int i = 0; i < n; i++) {
        c->match = data[i] == mark[c->match] ? c->match + 1 : data[i] == 'd';
        if (c->match == 6) {
            events++;
            c->match = 0;
        }
    }
}

/* Take what came; return whether the reply is over. */
static int feed(struct conn *c, const char *data, int n) {
    for (int i = 0; i < n;) {
        if (c->place == HEAD) {
            c->head[c->used++] = data[i++];
            if (c->used >= 4 && !memcmp(c->head + c->used - 4, "\r\n\r\n", 4)) {
                c->head[c->used] = 0;
                read_head(c);
                if (!c->chunked && !c->length) return 1;
            } else if (c->used > 8000) exit(3);
        } else if (c->place == DATA) {
            int part = n - i < c->length ? n - i : c->length;
            count_events(c, data + i, part);
            i += part;
            c->length -= part;
            if (!c->length && !c->chunked) return 1;
            if (!c->length) c->place = DATA_END;
        } else if (read_frame(c, data[i++])) return 1;
    }
    return 0;
}

/* Take what a connection has; return whether its reply is over. */
static int receive(struct conn *c) {
    static char data[1 << 18];
    int got = recv(c->fd, data, sizeof data, 0);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) {
        errors += c->busy;
        hang_up(c);
        return 1;
    }
    if (!c->busy || !feed(c, data, got)) return 0;
    if (tooks == room) took = realloc(took, (room = 2 * room + 1024) * sizeof *took);
    took[tooks++] = (now() - c->began) / 1e6;
    replies++;
    c->busy = 0;
    if (c->ends) hang_up(c);
    return 1;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct conn *free_one(void) {
    static int at;
    for (int i = 0; i < count; i++) {
        at = (at + 1) % count;
        if (!all[at].busy) return &all[at];
    }
    return NULL;
}

static void repeat(double seconds, double rate) {
    long began = now(), end = began + (long)(seconds * 1e9), asked = 0;
    struct epoll_event ready[512];
    for (int i = 0; i < count && !rate; i++) ask(&all[i], now());
    for (;;) {
        long t = now();
        int busy = 0;
        for (int i = 0; i < count; i++) busy += all[i].busy;
        if (t >= end + 10000000000L || (t >= end && !busy)) break;
        while (rate && t < end && began + asked * 1e9 / rate <= t) {
            struct conn *c = free_one();
            if (!c) break;
            ask(c, began + asked++ * 1e9 / rate);
        }
        int n = epoll_wait(epoll, ready, 512, rate ? 1 : 10);
        for (int i = 0; i < n; i++) {
            struct conn *c = ready[i].data.ptr;
            if (receive(c) && !rate && now() < end) ask(c, now());
        }
    }
    qsort(took, tooks, sizeof *took, by_size);
    printf("{\"seconds\":%.3f,\"replies\":%ld,\"events\":%ld,\"errors\":%ld,\"refused\":%ld,"
           "\"median_ms\":%.3f,\"p99_ms\":%.3f}\n", (now() - began) / 1e9, replies, events, errors,
           refused, tooks ? took[tooks / 2] : -1, tooks ? took[tooks * 99 / 100] : -1);
}

static void hold(int quiet) {
    struct epoll_event ready[512];
    int seen = 0;
    char word[16];
    for (int i = 0; i < count; i++) {
        ask(&all[i], now());
        if (i % 20 == 19) usleep(5000);
    }
    for (long end = now() + 60000000000L; !quiet && seen < count && now() < end;) {
        int n = epoll_wait(epoll, ready, 512, 10);
        for (int i = 0; i < n; i++) {
            struct conn *c = ready[i].data.ptr;
            int had = c->used;
            receive(c);
            seen += !had && c->used;
        }
    }
    printf("{\"open\":%d,\"errors\":%ld,\"refused\":%ld}\n", quiet ? count : seen, errors, refused);
    fflush(stdout);
    if (scanf("%15s", word) != 1) exit(2);
    for (int i = 0; i < count; i++) hang_up(&all[i]);
    printf("1\n");
}

int main(int argc, char **argv) {
    struct rlimit files = {65536, 65536};
    if (argc < 4) return 2;
    setrlimit(RLIMIT_NOFILE, &files);
    place.sin_port = htons(atoi(argv[2]));
    place.sin_addr.s_addr = htonl(0x7f000001);
    count = atoi(argv[3]);
    all = calloc(count, sizeof *all);
    for (int i = 0; i < count; i++) all[i].fd = -1;
    epoll = epoll_create1(0);
    read_request();
    if (!strcmp(argv[1], "repeat")) repeat(atof(argv[4]), argc > 5 ? atof(argv[5]) : 0);
    else hold(!strcmp(argv[1], "quiet"));
    return 0;
}
