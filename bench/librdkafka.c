/* A real client as load: librdkafka itself, without Python between it and the broker.
 *
 * usage: librdkafka LIBRARY BOOTSTRAP TOPIC produce|consume BYTES SECONDS RECORDS [NAME=VALUE]...
 *
 * LIBRARY is the shared library of librdkafka in the package confluent-kafka. The functions that are
 * used are declared below, so no headers are needed. The program produces records of BYTES to
 * partition 0 for SECONDS and waits for their acknowledgements, or it consumes RECORDS from the
 * partition's start. NAME=VALUE are settings of librdkafka. The program prints one line of JSON:
 * records, seconds, and the CPU seconds of the busiest thread. If these are close to the seconds,
 * the client was the limit.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define BATCH 1000
#define OFFSET_BEGINNING -2

struct message {
    int err;
    void *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private;
};

static void *(*conf_new)(void);
static int (*conf_set)(void *, const char *, const char *, char *, size_t);
static void (*conf_set_dr_msg_cb)(void *, void (*)(void *, const struct message *, void *));
static void *(*client_new)(int, void *, char *, size_t);
static void *(*topic_new)(void *, const char *, void *);
static int (*produce_batch)(void *, int32_t, int, struct message *, int);
static int (*client_poll)(void *, int);
static int (*client_flush)(void *, int);
static int (*consume_start)(void *, int32_t, int64_t);
static ssize_t (*consume_batch)(void *, int32_t, int, struct message **, size_t);
static void (*message_destroy)(struct message *);

static uint64_t acknowledged, failed;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void load(const char *library) {
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) fail(dlerror());
#define FIND(variable, name) \
    if (!(*(void **)&variable = dlsym(handle, name))) fail("librdkafka has no " name)
    FIND(conf_new, "rd_kafka_conf_new");
    FIND(conf_set, "rd_kafka_conf_set");
    FIND(conf_set_dr_msg_cb, "rd_kafka_conf_set_dr_msg_cb");
    FIND(client_new, "rd_kafka_new");
    FIND(topic_new, "rd_kafka_topic_new");
    FIND(produce_batch, "rd_kafka_produce_batch");
    FIND(client_poll, "rd_kafka_poll");
    FIND(client_flush, "rd_kafka_flush");
    FIND(consume_start, "rd_kafka_consume_start");
    FIND(consume_batch, "rd_kafka_consume_batch");
    FIND(message_destroy, "rd_kafka_message_destroy");
}

static void on_delivery(void *client, const struct message *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) failed++;
    else acknowledged++;
}

/* The CPU seconds of the thread that has used the most. */
static double busiest_thread_s(void) {
    double most = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300];
        unsigned long long ns = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%llu", &ns) == 1 && ns / 1e9 > most) most = ns / 1e9;
        fclose(file);
    }
    return most;
}

static uint64_t produce(void *client, void *topic, size_t bytes, double seconds) {
    char *value = calloc(1, bytes + 1);
    static struct message messages[BATCH];
    double end = now_s() + seconds;
    int left = 0; /* messages of the last batch for which the queue had no room */
    while (now_s() < end) {
        if (!left) left = BATCH;
        for (int i = 0; i < left; i++)
            messages[i] = (struct message){.payload = value, .len = bytes};
        left -= produce_batch(topic, 0, 0, messages, left);
        client_poll(client, left ? 1 : 0);
    }
    if (client_flush(client, 60000) || failed) fail("records were not acknowledged");
    return acknowledged;
}

static uint64_t consume(void *topic, size_t bytes, uint64_t records) {
    static struct message *messages[BATCH];
    uint64_t count = 0;
    double heard = now_s();
    while (count < records) {
        ssize_t n = consume_batch(topic, 0, 1000, messages, BATCH);
        for (ssize_t i = 0; i < n; i++) {
            if (!messages[i]->err && messages[i]->len == bytes) count++;
            message_destroy(messages[i]);
        }
        if (n > 0) heard = now_s();
        else if (now_s() - heard > 30) fail("nothing came for 30 s");
    }
    return count;
}

int main(int argc, char **argv) {
    if (argc < 8) fail("usage: librdkafka LIBRARY BOOTSTRAP TOPIC produce|consume BYTES SECONDS RECORDS [NAME=VALUE]...");
    load(argv[1]);
    int producing = !strcmp(argv[4], "produce");
    char error[512];
    void *conf = conf_new();
    if (conf_set(conf, "bootstrap.servers", argv[2], error, sizeof error)) fail(error);
    for (int i = 8; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value) fail("a setting needs a value");
        *value++ = 0;
        if (conf_set(conf, argv[i], value, error, sizeof error)) fail(error);
    }
    if (producing) conf_set_dr_msg_cb(conf, on_delivery);
    void *client = client_new(producing ? 0 : 1, conf, error, sizeof error);
    if (!client) fail(error);
    void *topic = topic_new(client, argv[3], NULL);
    size_t bytes = atol(argv[5]);
    double started = now_s();
    if (!producing && consume_start(topic, 0, OFFSET_BEGINNING)) fail("consuming does not start");
    uint64_t records = producing ? produce(client, topic, bytes, atof(argv[6]))
                                 : consume(topic, bytes, strtoull(argv[7], NULL, 10));
    double taken = now_s() - started;
    printf("{\"records\": %llu, \"seconds\": %.6f, \"busiest_thread_s\": %.3f}\n",
           (unsigned long long)records, taken, busiest_thread_s());
    fflush(stdout);
    _exit(0);
}
