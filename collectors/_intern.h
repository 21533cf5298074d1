/* Strings that occur often, stored once: text -> id, ids in the order in which texts first occurred. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef const uint8_t *at;

typedef struct { uint64_t hash; at text; uint32_t size, id; } slot;
typedef struct { slot *table; uint32_t capacity, count; at *texts; uint32_t *sizes; uint32_t room; int owned; } pool;

/* With `owned` the pool copies what it is given; else the texts have to outlive it. */
static int pool_start(pool *p, int owned) {
    p->capacity = 1024, p->count = 0, p->room = 512, p->owned = owned;
    p->table = calloc(p->capacity, sizeof(slot));
    p->texts = malloc(p->room * sizeof(at));
    p->sizes = malloc(p->room * sizeof(uint32_t));
    return p->table && p->texts && p->sizes;
}

static void pool_end(pool *p) {
    for (uint32_t i = 0; p->owned && i < p->count; i++) free((void *)p->texts[i]);
    free(p->table), free((void *)p->texts), free(p->sizes);
}

static uint64_t hash_of(at text, size_t size) {
    uint64_t h = size * 0x9E3779B97F4A7C15ull, word;
    for (; size >= 8; text += 8, size -= 8) {
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdull, h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, text, size);
    h = (h ^ word) * 0xff51afd7ed558ccdull, h ^= h >> 32;
    return h ? h : 1;
}

static int pool_grow(pool *p) {
    uint32_t larger = p->capacity * 2;
    slot *table = calloc(larger, sizeof(slot));
    if (!table) return 0;
    for (uint32_t i = 0; i < p->capacity; i++) {
        if (!p->table[i].hash) continue;
        uint32_t j = (uint32_t)p->table[i].hash & (larger - 1);
        while (table[j].hash) j = (j + 1) & (larger - 1);
        table[j] = p->table[i];
    }
    free(p->table);
    p->table = table, p->capacity = larger;
    return 1;
}

/* The id of a string, or -1 without memory. */
static inline int32_t intern(pool *p, at text, size_t size) {
    uint64_t h = hash_of(text, size);
    uint32_t i = (uint32_t)h & (p->capacity - 1);
    for (; p->table[i].hash; i = (i + 1) & (p->capacity - 1))
        if (p->table[i].hash == h && p->table[i].size == size && !memcmp(p->table[i].text, text, size)) return (int32_t)p->table[i].id;
    if (p->count == p->room) {
        at *texts = realloc((void *)p->texts, 2 * p->room * sizeof(at));
        if (!texts) return -1;
        p->texts = texts;
        uint32_t *sizes = realloc(p->sizes, 2 * p->room * sizeof(uint32_t));
        if (!sizes) return -1;
        p->sizes = sizes, p->room *= 2;
    }
    if (p->owned) {
        uint8_t *copy = malloc(size + 1);
        if (!copy) return -1;
        text = memcpy(copy, text, size);
    }
    p->texts[p->count] = text, p->sizes[p->count] = (uint32_t)size;
    p->table[i] = (slot){h, text, (uint32_t)size, p->count};
    uint32_t id = p->count++;
    if (2 * p->count > p->capacity && !pool_grow(p)) return -1;
    return (int32_t)id;
}
