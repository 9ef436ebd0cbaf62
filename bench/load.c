/* A load generator over raw sockets: sends one prepared request again and again, and measures.
 *
 * usage: load HOST PORT CONNECTIONS IN_FLIGHT SECONDS REQUEST_FILE
 *
 * REQUEST_FILE holds one complete request frame. Each connection keeps IN_FLIGHT requests in flight.
 * A latency counts from the sending of a request to the last byte of its response. The program
 * prints one line of JSON: requests, seconds, response bytes, latency percentiles in microseconds,
 * the generator's own CPU seconds. It uses one thread and epoll. It checks neither correlation ids
 * nor errors in responses: the caller checks one response beforehand.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_IN_FLIGHT 64
#define READ_BYTES (1 << 20)
#define MAX_SAMPLES (4 << 20)
#define CONNECTS_AT_ONCE 32
#define LONGEST_WAIT_MS 40000

struct connection {
    int fd;
    size_t unsent;                  /* bytes of requests still to be sent */
    uint64_t sent_ns[MAX_IN_FLIGHT]; /* ring of the send times of requests in flight */
    int first, under_way;
    uint32_t left;                  /* bytes of the response that is being read */
    unsigned char size[4];
    int size_bytes;
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static char *request;
static size_t request_bytes;
static uint32_t *samples;
static size_t sample_count;
static uint64_t requests, response_bytes;
static char *scratch;

static void write_some(struct connection *c) {
    while (c->unsent) {
        size_t at = (request_bytes - c->unsent % request_bytes) % request_bytes;
        ssize_t n = send(c->fd, request + at, request_bytes - at, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN) return;
            fail("send");
        }
        c->unsent -= n;
    }
}

static void start_request(struct connection *c) {
    c->sent_ns[(c->first + c->under_way) % MAX_IN_FLIGHT] = now_ns();
    c->under_way++;
    c->unsent += request_bytes;
}

static void finish_request(struct connection *c, uint64_t now) {
    uint64_t taken = (now - c->sent_ns[c->first]) / 1000;
    c->first = (c->first + 1) % MAX_IN_FLIGHT;
    c->under_way--;
    requests++;
    if (sample_count < MAX_SAMPLES) samples[sample_count++] = taken > UINT32_MAX ? UINT32_MAX : taken;
}

static void read_some(struct connection *c, int keep_going) {
    for (;;) {
        ssize_t n = recv(c->fd, scratch, READ_BYTES, 0);
        if (n < 0) {
            if (errno == EAGAIN) return;
            fail("recv");
        }
        if (n == 0) {
            fprintf(stderr, "the broker closed the connection\n");
            exit(1);
        }
        response_bytes += n;
        uint64_t now = now_ns();
        for (ssize_t i = 0; i < n;) {
            if (c->left == 0) {
                c->size[c->size_bytes++] = scratch[i++];
                if (c->size_bytes < 4) continue;
                c->size_bytes = 0;
                c->left = (uint32_t)c->size[0] << 24 | c->size[1] << 16 | c->size[2] << 8 | c->size[3];
            } else {
                ssize_t take = n - i < (ssize_t)c->left ? n - i : (ssize_t)c->left;
                c->left -= take;
                i += take;
            }
            if (c->left == 0 && c->size_bytes == 0) {
                finish_request(c, now);
                if (keep_going) start_request(c);
            }
        }
        write_some(c);
        if (n < READ_BYTES) return;
    }
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: load HOST PORT CONNECTIONS IN_FLIGHT SECONDS REQUEST_FILE\n");
        return 2;
    }
    int count = atoi(argv[3]), in_flight = atoi(argv[4]);
    double seconds = atof(argv[5]);
    if (in_flight > MAX_IN_FLIGHT) in_flight = MAX_IN_FLIGHT;
    FILE *file = fopen(argv[6], "rb");
    if (!file) fail("request file");
    fseek(file, 0, SEEK_END);
    request_bytes = ftell(file);
    rewind(file);
    request = malloc(request_bytes);
    if (fread(request, 1, request_bytes, file) != request_bytes) fail("request file");
    scratch = malloc(READ_BYTES);
    samples = malloc(MAX_SAMPLES * sizeof *samples);
    struct connection *all = calloc(count, sizeof *all);
    int poll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
        inet_pton(AF_INET, argv[1], &address.sin_addr);
        all[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        /* A broker's queue of new connections is short; if it is full, a connection waits a second. */
        if (i % CONNECTS_AT_ONCE == CONNECTS_AT_ONCE - 1) usleep(10000);
        if (connect(all[i].fd, (void *)&address, sizeof address)) fail("connect");
        int one = 1;
        setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(all[i].fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &all[i]};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd, &event)) fail("epoll_ctl");
    }
    uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < in_flight; j++) start_request(&all[i]);
        write_some(&all[i]);
    }
    struct epoll_event events[256];
    int waiting = count * in_flight;
    while (waiting > 0) {
        int n = epoll_wait(poll, events, 256, LONGEST_WAIT_MS);
        if (n <= 0) {
            fprintf(stderr, "nothing came for %d s\n", LONGEST_WAIT_MS / 1000);
            return 1;
        }
        int going = now_ns() < end;
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) write_some(c);
            if (events[i].events & EPOLLIN) read_some(c, going);
        }
        if (!going) {
            waiting = 0;
            for (int i = 0; i < count; i++) waiting += all[i].under_way;
        }
    }
    double taken = (now_ns() - start) / 1e9;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                 (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    qsort(samples, sample_count, sizeof *samples, compare);
#define AT(q) (sample_count ? samples[(size_t)((sample_count - 1) * (q))] : 0)
    printf("{\"requests\": %llu, \"seconds\": %.6f, \"response_bytes\": %llu, "
           "\"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u, \"cpu_s\": %.3f}\n",
           (unsigned long long)requests, taken, (unsigned long long)response_bytes, AT(0.5),
           AT(0.99), AT(0.999), cpu);
    return 0;
}
