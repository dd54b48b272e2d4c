"""What watches a cluster from outside: alerts, dashboards and how they are scraped. Pure."""
