/* Events of a Kineto chunk -> columns, in one pass over the bytes.
 *
 * This is the quick way for text that is as it should be. Whatever is not (an escape in a key, a number that is no plain
 * decimal, a control character, an unexpected type) makes scan() return None, and the chunk is decoded by the general
 * reader in decode.py, which is slower, forgiving, and the definition of what is right: on every chunk that this file
 * accepts, both must give the same columns. Nothing here keeps state between calls, and nothing reads past the buffer.
 */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#include "../_intern.h"

/* ------------------------------------------------------------------ JSON, strictly; NULL where it is not */
static inline at blank(at p, at end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
    return p;
}

/* From behind the opening quote to the closing one; `escaped` tells whether a backslash was passed. */
static at quoted(at p, at end, int *escaped) {
    *escaped = 0;
    for (;;) {
#if defined(__SSE2__)
        const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
        while (end - p >= 16) {
            __m128i text = _mm_loadu_si128((const __m128i *)p);
            __m128i found = _mm_or_si128(_mm_cmpeq_epi8(text, quote), _mm_cmpeq_epi8(text, slash));
            found = _mm_or_si128(found, _mm_cmpeq_epi8(_mm_min_epu8(text, control), text));
            int mask = _mm_movemask_epi8(found);
            if (mask) { p += __builtin_ctz((unsigned)mask); break; }
            p += 16;
        }
#endif
        while (p < end && *p != '"' && *p != '\\' && *p > 0x1f) p++;
        if (p >= end || *p <= 0x1f) return NULL;
        if (*p == '"') return p;
        *escaped = 1;
        if (end - p < 2) return NULL;
        if (p[1] == 'u') {
            if (end - p < 6) return NULL;
            for (int i = 2; i < 6; i++)
                if (!((p[i] >= '0' && p[i] <= '9') || ((p[i] | 32) >= 'a' && (p[i] | 32) <= 'f'))) return NULL;
            /* Surrogates must pair; that is left to the general reader. */
            if ((p[2] | 32) == 'd' && p[3] >= '8') return NULL;
            p += 6;
        } else if (strchr("\"\\/bfnrt", p[1]) && p[1]) {
            p += 2;
        } else {
            return NULL;
        }
    }
}

static inline int digit(at p, at end) { return p < end && *p >= '0' && *p <= '9'; }

/* A number by JSON's grammar, whatever its value. */
static at number(at p, at end) {
    if (p < end && *p == '-') p++;
    if (!digit(p, end)) return NULL;
    if (*p++ == '0') { if (digit(p, end)) return NULL; }
    else while (digit(p, end)) p++;
    if (p < end && *p == '.') {
        if (!digit(++p, end)) return NULL;
        while (digit(p, end)) p++;
    }
    if (p < end && (*p | 32) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        if (!digit(p, end)) return NULL;
        while (digit(p, end)) p++;
    }
    return p;
}

static inline at word(at p, at end, const char *text, size_t size) {
    return (size_t)(end - p) >= size && !memcmp(p, text, size) ? p + size : NULL;
}

/* Any value, checked and passed over. */
static at value(at p, at end, int depth) {
    int escaped;
    if (p >= end || depth > 64) return NULL;
    switch (*p) {
    case '"': return (p = quoted(p + 1, end, &escaped)) ? p + 1 : NULL;
    case 't': return word(p, end, "true", 4);
    case 'f': return word(p, end, "false", 5);
    case 'n': return word(p, end, "null", 4);
    case '[':
        p = blank(p + 1, end);
        if (p < end && *p == ']') return p + 1;
        for (;;) {
            if (!(p = value(p, end, depth + 1))) return NULL;
            p = blank(p, end);
            if (p >= end) return NULL;
            if (*p == ']') return p + 1;
            if (*p != ',') return NULL;
            p = blank(p + 1, end);
        }
    case '{':
        p = blank(p + 1, end);
        if (p < end && *p == '}') return p + 1;
        for (;;) {
            if (p >= end || *p != '"' || !(p = quoted(p + 1, end, &escaped))) return NULL;
            p = blank(p + 1, end);
            if (p >= end || *p != ':') return NULL;
            if (!(p = value(blank(p + 1, end), end, depth + 1))) return NULL;
            p = blank(p, end);
            if (p >= end) return NULL;
            if (*p == '}') return p + 1;
            if (*p != ',') return NULL;
            p = blank(p + 1, end);
        }
    default: return number(p, end);
    }
}

/* A plain decimal of at most 9e15 with at most `places` digits after the point, times 10^places, exactly. */
static at decimal(at p, at end, int places, int64_t *out) {
    int in_quotes = p < end && *p == '"', negative = 0, digits = 0;
    int64_t v = 0;
    p += in_quotes;
    if (p < end && *p == '-') negative = 1, p++;
    if (!digit(p, end) || (*p == '0' && digit(p + 1, end))) return NULL;
    while (digit(p, end)) { if (++digits > 16) return NULL; v = v * 10 + (*p++ - '0'); }
    if (v > 9000000000000000) return NULL;
    int left = places;
    if (p < end && *p == '.') {
        if (!digit(++p, end)) return NULL;
        while (digit(p, end)) { if (!left--) return NULL; v = v * 10 + (*p++ - '0'); }
    }
    while (left-- > 0) v *= 10;
    if (p >= end || (!in_quotes && (*p == 'e' || *p == 'E' || *p == '.'))) return NULL;
    if (in_quotes) { if (*p != '"') return NULL; p++; }
    *out = negative ? -v : v;
    return p;
}

/* ------------------------------------------------------------------ events */
enum { CORRELATION, STREAM, DEVICE, SIZE, GRAPH_NODE, IDS };
enum { NAME, CATEGORY, PROCESS, THREAD, TEXTS };

/* What of the arguments a collective's message follows from, by its name alone where that holds a word. */
enum { OPERATION, SENT, RECEIVED, ELEMENT, RANKS, DIMENSIONS, TYPES, PARTS };
typedef struct { at from, to; } span;

typedef struct {
    int64_t *start, *duration, *ids[IDS];
    int32_t *texts[TEXTS];
    uint8_t *timed;
    Py_ssize_t count, room;
    pool pools[TEXTS];
    int64_t *message_rows; /* rows that state a message, and which of the different ones */
    int32_t *message_codes;
    Py_ssize_t messages, messages_room;
    pool stated;
    uint8_t *key;
    size_t key_room;
    uint8_t *collective; /* by name: whether it holds one of the words; `judged` names have been looked at */
    uint32_t judged, judged_room;
    const char *words;
    int64_t phases[256];
} columns;

static int columns_grow(columns *c) {
    Py_ssize_t room = c->room ? 2 * c->room : 1 << 14;
#define GROW(field) do { void *grown = realloc(field, (size_t)room * sizeof *(field)); if (!grown) return 0; field = grown; } while (0)
    GROW(c->start); GROW(c->duration); GROW(c->timed);
    for (int i = 0; i < IDS; i++) GROW(c->ids[i]);
    for (int i = 0; i < TEXTS; i++) GROW(c->texts[i]);
#undef GROW
    c->room = room;
    return 1;
}

static const uint8_t NONE[] = "None";

#define IS(key, size, text) ((size) == sizeof(text) - 1 && !memcmp(key, text, sizeof(text) - 1))

enum { ORDINARY, METADATA, MESSAGE };

static at arguments(at p, at end, int64_t *ids, span *parts) {
    static const struct { const char *key; size_t size; } stated[PARTS] = {
        {"Collective name", 15}, {"In msg nelems", 13}, {"Out msg nelems", 14}, {"dtype", 5}, {"Group size", 10}, {"Input Dims", 10}, {"Input type", 10}};
    static const struct { const char *key; size_t size; int id; } known[] = {
        {"correlation", 11, CORRELATION}, {"stream", 6, STREAM}, {"device", 6, DEVICE}, {"bytes", 5, SIZE}, {"graph node id", 13, GRAPH_NODE}};
    int escaped;
    p = blank(p + 1, end);
    if (p < end && *p == '}') return p + 1;
    for (;;) {
        if (p >= end || *p != '"') return NULL;
        at key = p + 1;
        if (!(p = quoted(key, end, &escaped)) || escaped) return NULL;
        size_t size = (size_t)(p - key);
        p = blank(p + 1, end);
        if (p >= end || *p != ':') return NULL;
        p = blank(p + 1, end);
        int id = -1;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (size == known[i].size && !memcmp(key, known[i].key, size)) id = known[i].id;
        /* These two must be text or a number to be read by the general reader as well. */
        int label = IS(key, size, "name") || IS(key, size, "labels");
        span *part = NULL;
        for (int i = 0; i < PARTS; i++)
            if (size == stated[i].size && !memcmp(key, stated[i].key, size)) part = &parts[i], part->from = p;
        if (id >= 0 && p < end && *p == 'n') { if (!(p = word(p, end, "null", 4))) return NULL; ids[id] = -1; }
        else if (id >= 0) p = decimal(p, end, 0, &ids[id]);
        else if (label && (p >= end || *p == '{' || *p == '[' || *p == 't' || *p == 'f')) return NULL;
        else p = value(p, end, 0);
        if (!p) return NULL;
        if (part) part->to = p;
        p = blank(p, end);
        if (p >= end) return NULL;
        if (*p == '}') return p + 1;
        if (*p != ',') return NULL;
        p = blank(p + 1, end);
    }
}

/* Note that a row states a message; 1 where none with the same name and parts came before, -1 without memory. */
static int note(columns *c, Py_ssize_t row, at name, size_t size, const span *parts) {
    size_t whole = size + PARTS;
    for (int i = 0; i < PARTS; i++) whole += (size_t)(parts[i].to - parts[i].from);
    if (whole > c->key_room) {
        void *grown = realloc(c->key, 2 * whole);
        if (!grown) return -1;
        c->key = grown, c->key_room = 2 * whole;
    }
    if (c->messages == c->messages_room) {
        size_t room = (size_t)(2 * c->messages_room + 64);
        int64_t *rows = realloc(c->message_rows, room * sizeof *rows);
        if (rows) c->message_rows = rows;
        int32_t *codes = realloc(c->message_codes, room * sizeof *codes);
        if (codes) c->message_codes = codes;
        if (!rows || !codes) return -1;
        c->messages_room = (Py_ssize_t)room;
    }
    uint8_t *out = c->key;
    memcpy(out, name, size), out += size;
    for (int i = 0; i < PARTS; i++) {
        *out++ = 0; /* which no part holds */
        if (parts[i].from) memcpy(out, parts[i].from, (size_t)(parts[i].to - parts[i].from));
        out += parts[i].to - parts[i].from;
    }
    uint32_t before = c->stated.count;
    int32_t code = intern(&c->stated, c->key, whole);
    if (code < 0) return -1;
    c->message_rows[c->messages] = row, c->message_codes[c->messages++] = code;
    return c->stated.count > before;
}

/* Whether the name holds one of the words (each ended by a zero, the last by two), looked at once a name; -1: no memory. */
static int is_collective(columns *c, int32_t name) {
    if (c->pools[NAME].count > c->judged_room) {
        uint32_t room = 2 * c->pools[NAME].count;
        void *grown = realloc(c->collective, room);
        if (!grown) return -1;
        c->collective = grown, c->judged_room = room;
    }
    for (; c->judged < c->pools[NAME].count; c->judged++) {
        at text = c->pools[NAME].texts[c->judged];
        size_t size = c->pools[NAME].sizes[c->judged];
        uint8_t found = 0;
        for (const char *word = c->words; *word && !found; word += strlen(word) + 1)
            for (size_t i = 0, length = strlen(word); i + length <= size && !found; i++) found = !memcmp(text + i, word, length);
        c->collective[c->judged] = found;
    }
    return c->collective[name];
}

/* One event; it becomes a row if it is a complete one (phase X). `sort` says whether its text is handed back. */
static at event(at p, at end, columns *c, int *sort) {
    int64_t start = 0, duration = 0, ids[IDS] = {-1, -1, -1, -1, -1};
    at texts[TEXTS] = {NONE, NONE, NONE, NONE};
    size_t sizes[TEXTS] = {0, 0, 4, 4};
    span parts[PARTS] = {{NULL, NULL}};
    int timed = 0, escaped, seen_arguments = 0;
    uint8_t phase = 0;
    *sort = ORDINARY;
    if (p >= end || *p != '{') return NULL;
    p = blank(p + 1, end);
    if (p < end && *p == '}') return NULL;
    for (;;) {
        if (p >= end || *p != '"') return NULL;
        at key = p + 1;
        if (!(p = quoted(key, end, &escaped)) || escaped) return NULL;
        size_t size = (size_t)(p - key);
        p = blank(p + 1, end);
        if (p >= end || *p != ':') return NULL;
        p = blank(p + 1, end);
        if (p >= end) return NULL;
        int text = IS(key, size, "name") ? NAME : IS(key, size, "cat") ? CATEGORY : IS(key, size, "pid") ? PROCESS : IS(key, size, "tid") ? THREAD : -1;
        if (IS(key, size, "ph")) {
            if (end - p < 3 || p[0] != '"' || p[1] < 0x20 || p[1] == '"' || p[1] == '\\' || p[1] > 0x7e || p[2] != '"') return NULL;
            phase = p[1], p += 3;
        } else if (IS(key, size, "ts")) {
            p = decimal(p, end, 3, &start);
        } else if (IS(key, size, "dur")) {
            if (*p == 'n') timed = 0, p = word(p, end, "null", 4);
            else timed = 1, p = decimal(p, end, 3, &duration);
        } else if (IS(key, size, "args")) {
            if (*p == 'n') { p = word(p, end, "null", 4); }
            else if (*p == '{' && !seen_arguments++) { p = arguments(p, end, ids, parts); }
            else return NULL;
        } else if (text >= 0 && *p == '"') {
            texts[text] = p + 1;
            if (!(p = quoted(p + 1, end, &escaped))) return NULL;
            sizes[text] = (size_t)(p - texts[text]), p++;
            if (escaped && text >= PROCESS) return NULL;
        } else if (text >= PROCESS) {
            /* Only plain integers print as they are written. */
            texts[text] = p;
            if (*p == 'n') p = word(p, end, "null", 4), texts[text] = NONE;
            else { int64_t ignored; if (*p == '-' && p + 1 < end && p[1] == '0') return NULL; p = decimal(p, end, 0, &ignored); }
            if (p) sizes[text] = texts[text] == NONE ? 4 : (size_t)(p - texts[text]);
        } else if (text >= 0) {
            return NULL;
        } else {
            p = value(p, end, 0);
        }
        if (!p) return NULL;
        p = blank(p, end);
        if (p >= end) return NULL;
        if (*p == '}') { p++; break; }
        if (*p != ',') return NULL;
        p = blank(p + 1, end);
    }
    c->phases[phase]++;
    if (phase == 'M') *sort = METADATA;
    if (phase != 'X') return p;
    if (c->count == c->room && !columns_grow(c)) return NULL;
    Py_ssize_t row = c->count++;
    c->start[row] = start, c->duration[row] = duration, c->timed[row] = (uint8_t)timed;
    for (int i = 0; i < IDS; i++) c->ids[i][row] = ids[i];
    for (int i = 0; i < TEXTS; i++)
        if ((c->texts[i][row] = intern(&c->pools[i], texts[i], sizes[i])) < 0) return NULL;
    if (parts[SENT].from || parts[DIMENSIONS].from) {
        int named = parts[SENT].from ? 1 : is_collective(c, c->texts[NAME][row]);
        int fresh = named > 0 ? note(c, row, texts[NAME], sizes[NAME], parts) : named;
        if (fresh < 0) return NULL;
        if (fresh) *sort = MESSAGE;
    }
    return p;
}

static PyObject *texts_of(const pool *p) {
    PyObject *list = PyList_New(p->count);
    for (uint32_t i = 0; list && i < p->count; i++) {
        PyObject *text = PyBytes_FromStringAndSize((const char *)p->texts[i], p->sizes[i]);
        if (!text || PyList_SetItem(list, i, text) < 0) { Py_DECREF(list); return NULL; }
    }
    return list;
}

/* Metadata events and different messages are few: where they lie is kept, and their text is handed back for the general
 * reader. */
typedef struct { span *found; Py_ssize_t count, room; } spans;

static int keep(spans *s, at from, at to) {
    if (s->count == s->room) {
        size_t room = (size_t)(2 * s->room + 16);
        span *grown = realloc(s->found, room * sizeof(span));
        if (!grown) return 0;
        s->found = grown, s->room = (Py_ssize_t)room;
    }
    s->found[s->count++] = (span){from, to};
    return 1;
}

static PyObject *text_of(const spans *s) {
    PyObject *list = PyList_New(s->count);
    for (Py_ssize_t i = 0; list && i < s->count; i++) {
        PyObject *text = PyBytes_FromStringAndSize((const char *)s->found[i].from, s->found[i].to - s->found[i].from);
        if (!text || PyList_SetItem(list, i, text) < 0) { Py_DECREF(list); return NULL; }
    }
    return list;
}

static PyObject *result_of(const columns *c, const spans *metadata, const spans *messages) {
#define BYTES(field) PyBytes_FromStringAndSize((const char *)(field), c->count * (Py_ssize_t)sizeof *(field))
    PyObject *phases = PyDict_New();
    for (int i = 0; phases && i < 256; i++) {
        if (!c->phases[i]) continue;
        char key[2] = {(char)i, 0};
        PyObject *count = PyLong_FromLongLong(c->phases[i]);
        if (!count || PyDict_SetItemString(phases, key, count) < 0) { Py_XDECREF(count); Py_DECREF(phases); return NULL; }
        Py_DECREF(count);
    }
    return Py_BuildValue("{sNsNsNsNsNsNsNsNsNsNsNsNsNsNsNsNsNsNsNsNsN}", "start", BYTES(c->start), "duration", BYTES(c->duration), "timed", BYTES(c->timed),
        "correlation", BYTES(c->ids[CORRELATION]), "stream", BYTES(c->ids[STREAM]), "device", BYTES(c->ids[DEVICE]), "size", BYTES(c->ids[SIZE]),
        "graph_node", BYTES(c->ids[GRAPH_NODE]), "name", BYTES(c->texts[NAME]), "category", BYTES(c->texts[CATEGORY]), "process", BYTES(c->texts[PROCESS]),
        "thread", BYTES(c->texts[THREAD]), "names", texts_of(&c->pools[NAME]), "categories", texts_of(&c->pools[CATEGORY]),
        "processes", texts_of(&c->pools[PROCESS]), "threads", texts_of(&c->pools[THREAD]), "phases", phases, "metadata", text_of(metadata),
        "messages", text_of(messages), "message_rows", PyBytes_FromStringAndSize((const char *)c->message_rows, c->messages * (Py_ssize_t)sizeof(int64_t)),
        "message_codes", PyBytes_FromStringAndSize((const char *)c->message_codes, c->messages * (Py_ssize_t)sizeof(int32_t)));
#undef BYTES
}

/* Whether all of the text was read. Touches no Python object, so that other threads may run. */
static int scan_all(at p, at end, columns *c, spans *metadata, spans *messages) {
    p = blank(p, end);
    while (p < end) {
        int sort;
        at from = p;
        if (!(p = event(p, end, c, &sort))) return 0;
        if (sort != ORDINARY && !keep(sort == METADATA ? metadata : messages, from, p)) return 0;
        p = blank(p, end);
        if (p == end) return 1;
        if (*p != ',') return 0;
        p = blank(p + 1, end);
    }
    return 0;
}

PyDoc_STRVAR(scan_doc,
"scan(data: bytes, words: bytes) -> dict | None\n\n"
"Columns of comma-separated events, or None where the general reader has to decide. Times are nanoseconds.\n"
"words: parts of the names whose shapes are wanted, each ended by a zero.");

static PyObject *scan(PyObject *module, PyObject *arguments) {
    char *data, *words;
    Py_ssize_t size, ignored;
    PyObject *text, *parts;
    (void)module;
    /* Not by "y#": what headers of 3.13 and newer make of it does not run on 3.11. */
    if (!PyArg_ParseTuple(arguments, "SS", &text, &parts)) return NULL;
    if (PyBytes_AsStringAndSize(text, &data, &size) || PyBytes_AsStringAndSize(parts, &words, &ignored)) return NULL;
    columns c;
    spans metadata, messages;
    memset(&c, 0, sizeof c), memset(&metadata, 0, sizeof metadata), memset(&messages, 0, sizeof messages);
    c.words = words; /* bytes objects end with one more zero */
    int ready = 1, whole = 0;
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; i < TEXTS; i++) ready = pool_start(&c.pools[i], 0) && ready;
    ready = pool_start(&c.stated, 1) && ready;
    if (ready) whole = scan_all((at)data, (at)data + size, &c, &metadata, &messages);
    Py_END_ALLOW_THREADS
    PyObject *result = !ready ? PyErr_NoMemory() : whole ? result_of(&c, &metadata, &messages) : Py_NewRef(Py_None);
    free(metadata.found), free(messages.found), free(c.collective);
    free(c.message_rows), free(c.message_codes), free(c.key), pool_end(&c.stated);
    free(c.start), free(c.duration), free(c.timed);
    for (int i = 0; i < IDS; i++) free(c.ids[i]);
    for (int i = 0; i < TEXTS; i++) free(c.texts[i]), pool_end(&c.pools[i]);
    return result;
}

static PyMethodDef methods[] = {{"scan", scan, METH_VARARGS, scan_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_scan", "A quick reader of well-formed Kineto events.", 0, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__scan(void) { return PyModuleDef_Init(&definition); }
