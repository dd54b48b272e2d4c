/* Engines that cost next to nothing: four ports, one process, one epoll loop.
 *
 * The words in a request say what it gets: "bench:short" a whole reply, "bench:paced" a chunk each
 * 20 ms, "bench:burst" all chunks at once, "bench:idle" one chunk and then silence, "bench:quiet"
 * not a byte. Prints its ports. GET /stats tells how many streams run, and how often each was asked.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORTS = 4, CHUNKS = 64, PAUSE = 20, MOST = 65536 };

struct conn {
    int fd, engine, used, size;
    int streaming; /* a reply runs that is not over */
    int left;      /* chunks to come */
    long due;      /* when the next one is */
    char *in;
};

static struct conn *conns[MOST];
static int active[MOST], actives, at_active[MOST];
static int listeners[PORTS], epoll;
static long streams, requests[PORTS];
static char whole[2048], chunk[512], last[512];

static const char *HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                          "transfer-encoding: chunked\r\n\r\n";

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000L + t.tv_nsec / 1000000L;
}

static int framed(char *to, const char *data) {
    return sprintf(to, "%zx\r\n%s\r\n", strlen(data), data);
}

static void begin(struct conn *c) {
    if (!c->streaming++) streams++;
}

static void pace(struct conn *c) {
    at_active[c->fd] = actives;
    active[actives++] = c->fd;
}

static void end(struct conn *c) {
    if (c->streaming) {
        c->streaming = 0;
        streams--;
    }
    if (at_active[c->fd] >= 0) {
        int moved = active[--actives];
        active[at_active[c->fd]] = moved;
        at_active[moved] = at_active[c->fd];
        at_active[c->fd] = -1;
    }
}

static void lost(struct conn *c) {
    end(c);
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->in);
    free(c);
}

/* Who does not take a reply is waited for, a proxy that stalls shows; who is gone is read of soon. */
static void say(struct conn *c, const char *text) {
    int size = strlen(text);
    while (size > 0) {
        int sent = send(c->fd, text, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return;
        if (sent < 0) usleep(100);
        else {
            text += sent;
            size -= sent;
        }
    }
}

static void answer_get(struct conn *c, const char *target) {
    char body[512], out[1024];
    if (!strncmp(target, "/stats", 6))
        sprintf(body, "{\"streams\":%ld,\"requests\":[%ld,%ld,%ld,%ld]}", streams,
                requests[0], requests[1], requests[2], requests[3]);
    else if (strstr(target, "/v1/models"))
        sprintf(body, "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\"}]}");
    else
        sprintf(body, "{\"status\":\"ok\",\"model_path\":\"m\",\"served_model_name\":\"m\","
                      "\"is_generation\":true,\"tokenizer_path\":\"\"}");
    sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
            strlen(body), body);
    say(c, out);
}

static void step(struct conn *c) {
    if (c->left-- > 0) {
        say(c, chunk);
        c->due += PAUSE;
    } else {
        say(c, last);
        end(c);
    }
}

static void answer(struct conn *c, const char *body, int size) {
    const char *kind = memmem(body, size, "bench:", 6);
    requests[c->engine]++;
    kind = kind ? kind + 6 : "short";
    if (!strncmp(kind, "short", 5)) {
        say(c, whole);
        return;
    }
    begin(c);
    if (!strncmp(kind, "quiet", 5)) return;
    say(c, HEAD);
    if (!strncmp(kind, "idle", 4)) {
        say(c, chunk);
    } else if (!strncmp(kind, "burst", 5)) {
        for (int i = 0; i < CHUNKS; i++) say(c, chunk); /* each written by itself */
        say(c, last);
        end(c);
    } else {
        c->left = CHUNKS;
        c->due = now();
        pace(c);
        step(c);
    }
}

/* Serve what is whole in the buffer; -1: not HTTP as it is expected here. */
static int serve(struct conn *c) {
    for (;;) {
        char *blank = memmem(c->in, c->used, "\r\n\r\n", 4);
        if (!blank) return 0;
        int head = blank + 4 - c->in, size = 0, held = 0;
        char *line = strcasestr(c->in, "\ncontent-length:");
        char *chunked = strcasestr(c->in, "\ntransfer-encoding:");
        if (line && line < blank) size = atoi(line + 16);
        if (chunked && chunked < blank) { /* only looked for its end: the words are in it */
            char *over = memmem(c->in + head, c->used - head, "0\r\n\r\n", 5);
            if (!over) return 0;
            size = over + 5 - c->in - head;
        }
        if (c->used < head + size) {
            if (head + size >= c->size) {
                c->size = head + size + 4096;
                c->in = realloc(c->in, c->size + 1);
            }
            return 0;
        }
        if (!strncmp(c->in, "GET ", 4)) answer_get(c, c->in + 4);
        else answer(c, c->in + head, size);
        held = c->used - head - size;
        memmove(c->in, c->in + head + size, held);
        c->used = held;
        c->in[held] = 0;
        if (!held) return 0;
    }
}

static void come(int engine) {
    int fd, one = 1;
    while ((fd = accept4(listeners[engine], NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->fd = fd;
        c->engine = engine;
        c->size = 4096;
        c->in = malloc(c->size + 1);
        conns[fd] = c;
        at_active[fd] = -1;
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static void take(struct conn *c) {
    if (c->used + 2048 > c->size) c->in = realloc(c->in, (c->size = 2 * c->size + 2048) + 1);
    int got = recv(c->fd, c->in + c->used, c->size - c->used, 0);
    if (got <= 0) {
        lost(c);
        return;
    }
    c->used += got;
    c->in[c->used] = 0;
    if (serve(c)) lost(c);
}

static void tick(void) {
    long t = now();
    for (int i = actives - 1; i >= 0; i--)
        if (i < actives && conns[active[i]]->due <= t) step(conns[active[i]]);
}

static void listen_all(void) {
    for (int i = 0; i < PORTS; i++) {
        struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
        socklen_t size = sizeof place;
        struct epoll_event event = {.events = EPOLLIN};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (bind(fd, (void *)&place, size) || listen(fd, 4096)) exit(1);
        getsockname(fd, (void *)&place, &size);
        printf("%d%s", ntohs(place.sin_port), i < PORTS - 1 ? " " : "\n");
        event.data.fd = listeners[i] = fd;
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
    fflush(stdout);
}

static void prepare(void) {
    char text[700], data[400], tail[400];
    int used = 0;
    memset(text, 'x', 400);
    text[400] = 0;
    sprintf(whole, "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\","
                   "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\"},"
                   "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,"
                   "\"completion_tokens\":64,\"total_tokens\":76}}", text);
    char *body = strdup(whole);
    sprintf(whole, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
            strlen(body), body);
    sprintf(data, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
                  "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},"
                  "\"finish_reason\":null}]}\n\n");
    framed(chunk, data);
    sprintf(tail, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
                  "\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,"
                  "\"completion_tokens\":64,\"total_tokens\":76}}\n\n");
    used = framed(last, tail);
    used += framed(last + used, "data: [DONE]\n\n");
    strcpy(last + used, "0\r\n\r\n");
}

int main(void) {
    struct rlimit files = {MOST, MOST};
    struct epoll_event events[512];
    setrlimit(RLIMIT_NOFILE, &files);
    memset(at_active, -1, sizeof at_active);
    epoll = epoll_create1(0);
    prepare();
    listen_all();
    for (;;) {
        int n = epoll_wait(epoll, events, 512, actives ? 1 : -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd, engine = 0;
            while (engine < PORTS && listeners[engine] != fd) engine++;
            if (engine < PORTS) come(engine);
            else if (conns[fd]) take(conns[fd]);
        }
        if (actives) tick();
    }
}
