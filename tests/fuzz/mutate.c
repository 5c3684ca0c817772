/* Runs a fuzz target on the inputs of its corpus and on what small changes make of them, without libFuzzer:
 * mutate_<target> CORPUS SECONDS LAST
 *
 * CORPUS has an input on each line, in hexadecimal digits; libFuzzer found them (./test fuzz-guided). Each is run as it
 * is. Then changed ones are run until so many seconds of a processor are used, always the same ones in the same order.
 * The file LAST has the input that was run last: the one of a fault. */
#include "unit/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INPUTS_MAX 4096u
#define SIZE_MAX_RUN 4096u
#define CHANGES_MAX 6u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    size_t size;
    uint8_t bytes[SIZE_MAX_RUN];
};

static struct input *corpus;
static size_t corpus_size;
static int last_file;

static void fail(const char *what)
{
    fprintf(stderr, "error: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* False: the line is none of an input. */
static bool read_line(const char *line, struct input *input)
{
    input->size = 0;
    for (; line[0] != '\0' && line[0] != '\n'; line += 2) {
        unsigned byte;
        if (input->size == SIZE_MAX_RUN || sscanf(line, "%2x", &byte) != 1 || line[1] == '\0' || line[1] == '\n')
            return false;
        input->bytes[input->size++] = (uint8_t)byte;
    }
    return true;
}

static void read_corpus(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail(path);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) >= 0) {
        if (corpus_size == INPUTS_MAX || !read_line(line, &corpus[corpus_size])) {
            fprintf(stderr, "error: %s, line %zu: at most %u inputs of at most %u bytes, in hexadecimal digits\n", path,
                    corpus_size + 1, INPUTS_MAX, SIZE_MAX_RUN);
            exit(2);
        }
        corpus_size++;
    }
    free(line);
    fclose(file);
    if (corpus_size == 0) {
        fprintf(stderr, "error: %s has no input\n", path);
        exit(2);
    }
}

/* Copied, so that the sanitizer sees its end. */
static void run(const struct input *input)
{
    if (pwrite(last_file, input->bytes, input->size, 0) < 0 || ftruncate(last_file, (off_t)input->size) != 0)
        fail("the file of the last input");
    uint8_t *copy = malloc(input->size + (input->size == 0));
    memcpy(copy, input->bytes, input->size);
    (void)LLVMFuzzerTestOneInput(copy, input->size);
    free(copy);
}

/* Makes room for, or takes away, `count` bytes at a place. */
static void resize(struct input *input, size_t at, size_t count, bool is_longer)
{
    uint8_t *place = input->bytes + at;
    if (is_longer && input->size + count <= SIZE_MAX_RUN) {
        memmove(place + count, place, input->size - at);
        input->size += count;
    } else if (!is_longer && at + count <= input->size) {
        memmove(place, place + count, input->size - at - count);
        input->size -= count;
    }
}

static void change(struct random *random, struct input *input)
{
    static const uint8_t borders[] = {0, 1, 0x7f, 0x80, 0xff};
    const size_t at = random_below(random, (uint32_t)input->size + 1);
    const size_t count = 1 + random_below(random, 8);
    const struct input *other = &corpus[random_below(random, (uint32_t)corpus_size)];
    switch (random_below(random, 6)) {
    case 0:
        resize(input, at, count, false);
        break;
    case 1:
        resize(input, at, count, true);
        break;
    case 2: /* its end becomes that of another one */
        if (at < other->size) {
            memcpy(input->bytes + at, other->bytes + at, other->size - at);
            input->size = other->size;
        }
        break;
    case 3:
        if (at < input->size)
            input->bytes[at] ^= (uint8_t)(1u << random_below(random, 8));
        break;
    case 4:
        if (at < input->size)
            input->bytes[at] = borders[random_below(random, sizeof(borders))];
        break;
    default:
        if (at < input->size)
            input->bytes[at] = (uint8_t)random_u64(random);
        break;
    }
}

/* Of a processor: as much is run where others work beside it. */
static double used_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 4) {
        fprintf(stderr, "usage: %s CORPUS SECONDS LAST\n", arguments[0]);
        return 2;
    }
    corpus = calloc(INPUTS_MAX, sizeof(*corpus));
    if (corpus == NULL)
        fail("the corpus");
    read_corpus(arguments[1]);
    last_file = open(arguments[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (last_file < 0)
        fail(arguments[3]);
    const double end_s = used_s() + strtod(arguments[2], NULL);
    unsigned long count = 0;
    for (; count < corpus_size; count++)
        run(&corpus[count]);
    struct random random = {.state = 1};
    for (; used_s() < end_s; count++) {
        struct input input = corpus[random_below(&random, (uint32_t)corpus_size)];
        for (uint32_t left = 1 + random_below(&random, CHANGES_MAX); left > 0; left--)
            change(&random, &input);
        run(&input);
    }
    printf("%lu inputs\n", count);
    free(corpus);
    return 0;
}
