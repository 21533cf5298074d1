/* Rows of a table in a SQLite file -> integer columns, by walking the table's pages.
 *
 * This is the quick way for tables of plain integers and short texts. Whatever else it meets (a number with a fraction,
 * a text where a number is wanted, a value on an overflow page, a row that lacks a column, a page that is not what it
 * should be) makes read() return None, and SQLite itself reads the table, which is the definition of what is right: what
 * this file accepts, both must give alike. The format is https://www.sqlite.org/fileformat2.html, sections 1.2 to 2.1.
 * Pages are read one by one, so a file that shrinks meanwhile is a short read and never a fault.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "_intern.h"

enum { DEEPEST = 24, MOST_COLUMNS = 64 };
#define MISSING (-1)

typedef struct {
    int fd;
    uint32_t page_size, usable, pages;
    uint8_t *seen, *buffers[DEEPEST];
    int columns, wanted[MOST_COLUMNS], rowid, text;
    int64_t *out[MOST_COLUMNS];
    int32_t *codes;
    Py_ssize_t count, room;
    pool texts;
    uint32_t told;
    PyObject *take;
    PyThreadState *state;
} walk;

static inline uint32_t two(at p) { return (uint32_t)p[0] << 8 | p[1]; }
static inline uint32_t four(at p) { return two(p) << 16 | two(p + 2); }

/* A variable-length integer of at most nine bytes; NULL where it leaves the page. */
static inline at varint(at p, at end, uint64_t *out) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) {
        if (p >= end) return NULL;
        v = v << 7 | (*p & 0x7f);
        if (*p++ < 0x80) { *out = v; return p; }
    }
    if (p >= end) return NULL;
    *out = v << 8 | *p;
    return p + 1;
}

/* A big-endian number of 1 to 8 bytes; `room` is how many may be read. */
static inline int64_t integer(at p, int size, size_t room) {
    if (room >= 8) {
        uint64_t whole = 0;
        for (int i = 0; i < 8; i++) whole = whole << 8 | p[i]; /* one load, swapped */
        return (int64_t)whole >> (64 - 8 * size);
    }
    uint64_t v = *p & 0x80 ? ~(uint64_t)0 : 0;
    for (int i = 0; i < size; i++) v = v << 8 | p[i];
    return (int64_t)v;
}

/* Hand the rows in the buffers out, with the texts that came up since the last time; the buffers are free afterwards. */
static int hand_out(walk *w) {
    PyEval_RestoreThread(w->state);
    PyObject *list = PyList_New(w->texts.count - w->told), *done = NULL;
    for (Py_ssize_t i = 0; list && w->told < w->texts.count; i++, w->told++) {
        PyObject *text = PyBytes_FromStringAndSize((const char *)w->texts.texts[w->told], w->texts.sizes[w->told]);
        if (!text || PyList_SetItem(list, i, text) < 0) Py_CLEAR(list);
    }
    if (list) done = PyObject_CallFunction(w->take, "nO", w->count, list);
    Py_XDECREF(list);
    Py_XDECREF(done);
    w->state = PyEval_SaveThread();
    w->count = 0;
    return done != NULL;
}

/* One row, of which `local` bytes lie on this page. */
static int row(walk *w, at record, uint64_t local, int64_t rowid) {
    static const uint8_t sizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    at end = record + local, type = record;
    uint64_t head, serial, size, body;
    if (!(type = varint(record, end, &head)) || head > local) return 0;
    at types_end = record + head;
    body = head;
    int next = 0, text = w->text < 0;
    for (int column = 0; next < w->columns || !text; column++) {
        if (type >= types_end) return 0;
        if (*type < 0x80) serial = *type++;
        else if (!(type = varint(type, types_end, &serial))) return 0;
        if (serial < 10) {
            size = sizes[serial];
        } else {
            size = (serial - 12) / 2;
            if (serial < 12 || size > local || body > local) return 0;
        }
        int number = next < w->columns && w->wanted[next] == column;
        if (number || column == w->text) {
            if (body + size > local) return 0;
            at value = record + body;
            if (number) {
                int64_t found;
                if (column == w->rowid) { if (serial) return 0; found = rowid; }
                else if (!serial) found = MISSING;
                else if (serial < 7) found = integer(value, (int)size, (size_t)(end - value));
                else if (serial == 8 || serial == 9) found = (int64_t)serial - 8;
                else return 0;
                w->out[next++][w->count] = found;
            }
            if (column == w->text) {
                if (!serial || serial == 13) w->codes[w->count] = MISSING;
                else if (serial < 13 || !(serial & 1)) return 0;
                else if ((w->codes[w->count] = intern(&w->texts, value, size)) < 0) return 0;
                text = 1;
            }
        }
        body += size;
    }
    return ++w->count < w->room || hand_out(w);
}

static int page(walk *w, uint32_t number, int depth) {
    if (!number || number > w->pages || depth >= DEEPEST || w->seen[number >> 3] & 1 << (number & 7)) return 0;
    w->seen[number >> 3] |= (uint8_t)(1 << (number & 7));
    if (!w->buffers[depth] && !(w->buffers[depth] = malloc(w->page_size))) return 0;
    uint8_t *start = w->buffers[depth];
    if (pread(w->fd, start, w->page_size, (off_t)(number - 1) * w->page_size) != (ssize_t)w->page_size) return 0;
    uint32_t header = number == 1 ? 100 : 0, cells = two(start + header + 3);
    int leaf = start[header] == 13;
    at end = start + w->usable, pointers = start + header + (leaf ? 8 : 12);
    if ((!leaf && start[header] != 5) || pointers + 2 * (size_t)cells > end) return 0;
    /* What of a payload stays on the page (section 1.6 of the format). */
    uint64_t most = w->usable - 35, least = (w->usable - 12) * 32 / 255 - 23;
    for (uint32_t i = 0; i < cells; i++) {
        at cell = start + two(pointers + 2 * i);
        if (cell < pointers + 2 * (size_t)cells || cell + 4 > end) return 0;
        if (!leaf) {
            if (!page(w, four(cell), depth + 1)) return 0;
            continue;
        }
        uint64_t payload, rowid, local;
        if (!(cell = varint(cell, end, &payload)) || !(cell = varint(cell, end, &rowid))) return 0;
        local = payload;
        if (payload > most) {
            uint64_t kept = least + (payload - least) % (w->usable - 4);
            local = kept <= most ? kept : least;
        }
        if (local > (uint64_t)(end - cell) || !row(w, cell, local, (int64_t)rowid)) return 0;
    }
    return leaf || page(w, four(start + header + 8), depth + 1);
}

/* Page size, usable bytes and number of pages, from the file's header. */
static int measure(walk *w) {
    uint8_t head[100];
    off_t size = lseek(w->fd, 0, SEEK_END);
    if (pread(w->fd, head, sizeof head, 0) != sizeof head || memcmp(head, "SQLite format 3", 16)) return 0;
    w->page_size = two(head + 16) == 1 ? 65536 : two(head + 16);
    if (w->page_size < 512 || w->page_size & (w->page_size - 1) || head[20] > w->page_size - 480) return 0;
    w->usable = w->page_size - head[20];
    if (size / w->page_size > 0x7fffffff || (w->text >= 0 && four(head + 56) != 1)) return 0;
    w->pages = (uint32_t)(size / w->page_size);
    return 1;
}

PyDoc_STRVAR(read_doc,
"read(fd, root, integers, rowid, text, codes, take) -> bool\n\n"
"Read the table whose first page is `root`. `integers` is a list of (position in the row, writable buffer of int64),\n"
"positions rising; the column at `rowid` (-1: none) is the row's own number. `text` (-1: none) is the position of a\n"
"text column, `codes` a writable buffer of int32, filled with numbers of texts in the order\n"
"in which they came up (-1: NULL or empty). Whenever the buffers, of one length, are full, and at the end, take(count,\n"
"new) is called: they hold `count` rows, and `new` is a list of the texts (bytes) that came up since. False where\n"
"SQLite has to read the table, from the first row that was not handed out.");

static PyObject *read_table(PyObject *module, PyObject *args) {
    PyObject *integers, *codes;
    Py_buffer views[MOST_COLUMNS + 1];
    int held = 0, whole = 0, ready;
    unsigned int root;
    walk w;
    (void)module;
    memset(&w, 0, sizeof w);
    if (!PyArg_ParseTuple(args, "iIO!iiOO", &w.fd, &root, &PyList_Type, &integers, &w.rowid, &w.text, &codes, &w.take)) return NULL;
    w.columns = PyList_Size(integers) <= MOST_COLUMNS ? (int)PyList_Size(integers) : -1;
    w.room = -1;
    ready = w.columns >= 0;
    for (int i = 0; ready && i < w.columns; i++) {
        PyObject *target;
        ready = PyArg_ParseTuple(PyList_GetItem(integers, i), "iO", &w.wanted[i], &target) && w.wanted[i] > (i ? w.wanted[i - 1] : -1)
            && PyObject_GetBuffer(target, &views[held], PyBUF_WRITABLE) == 0;
        if (!ready) break;
        w.out[i] = views[held].buf;
        if (w.room < 0) w.room = views[held].len / (Py_ssize_t)sizeof(int64_t);
        ready = views[held++].len == w.room * (Py_ssize_t)sizeof(int64_t);
    }
    if (ready && w.text >= 0 && (ready = PyObject_GetBuffer(codes, &views[held], PyBUF_WRITABLE) == 0)) {
        w.codes = views[held].buf;
        if (w.room < 0) w.room = views[held].len / (Py_ssize_t)sizeof(int32_t);
        ready = views[held++].len == w.room * (Py_ssize_t)sizeof(int32_t);
    }
    ready = ready && w.room > 0;
    if (ready) {
        w.state = PyEval_SaveThread();
        if (measure(&w) && (w.seen = calloc(w.pages / 8 + 1, 1)) && pool_start(&w.texts, 1)) whole = page(&w, root, 0);
        if (whole && w.count) whole = hand_out(&w);
        PyEval_RestoreThread(w.state);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "columns must rise, and buffers must be of one length");
    }
    for (int i = 0; i < DEEPEST; i++) free(w.buffers[i]);
    free(w.seen), pool_end(&w.texts);
    while (held) PyBuffer_Release(&views[--held]);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(whole);
}

static PyMethodDef methods[] = {{"read", read_table, METH_VARARGS, read_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_rows", "A quick reader of tables in SQLite files.", 0, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__rows(void) { return PyModuleDef_Init(&definition); }
