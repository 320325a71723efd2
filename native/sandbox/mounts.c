/* The table of mounts, as /proc/self/mountinfo tells it. */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The kernel writes blanks and backslashes in paths as three octal digits. */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        unsigned value;
        if (*from == '\\' && sscanf(from + 1, "%3o", &value) == 1) {
            *to++ = (char)value;
            from += 3;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static bool has_option(const char *options, const char *wanted) {
    size_t size = strlen(wanted);
    for (const char *at = options; at != NULL; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, wanted, size) == 0 && (at[size] == ',' || at[size] == '\0')) return true;
    return false;
}

/* Where the field begins that has `skipped` others before it; each ends with a blank. */
static char *field(char *line, int skipped) {
    for (; line != NULL && skipped > 0; skipped--) {
        line = strchr(line, ' ');
        if (line != NULL) line++;
    }
    return line;
}

static void end_field(char *text) {
    text[strcspn(text, " \n")] = '\0';
}

/* "id parent device root POINT OPTIONS [tags] - TYPE source SUPER-OPTIONS" */
static bool parse(char *line, struct mount *mount) {
    char *separator = strstr(line, " - ");
    char *point = field(line, 4), *options = field(line, 5);
    char *type = separator == NULL ? NULL : separator + 3;
    char *super = type == NULL ? NULL : field(type, 2);
    if (super == NULL || options == NULL || options > separator) return false;
    end_field(point);
    end_field(options);
    end_field(type);
    end_field(super);
    unescape(point);
    mount->id = atol(line);
    mount->point = strdup(point);
    mount->type = strdup(type);
    mount->read_only = has_option(options, "ro") || has_option(super, "ro");
    return mount->point != NULL && mount->type != NULL;
}

static int by_point(const void *a, const void *b) {
    const struct mount *left = a;
    const struct mount *right = b;
    return strcmp(left->point, right->point);
}

int mounts_read(struct mount_table *table) {
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0, room = 0;
    *table = (struct mount_table){NULL, 0};
    if (file == NULL) return -1;
    while (getline(&line, &size, file) >= 0) {
        if (table->count == room) {
            room = room ? room * 2 : 64;
            struct mount *items = realloc(table->items, room * sizeof *items);
            if (items == NULL) break;
            table->items = items;
        }
        if (parse(line, &table->items[table->count])) table->count++;
    }
    free(line);
    fclose(file);
    if (table->count == 0) {
        errno = ENODATA;
        return -1;
    }
    /* A path sorts before those beneath it. */
    qsort(table->items, table->count, sizeof *table->items, by_point);
    return 0;
}

long mount_id_of(const char *path) {
    struct statx status;
    if (statx(AT_FDCWD, path, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) < 0)
        return -1;
    return (long)status.stx_mnt_id;
}

bool mount_is_visible(const struct mount *mount) {
    return mount_id_of(mount->point) == mount->id;
}

bool path_is_beneath(const char *path, const char *above) {
    size_t size = strlen(above);
    if (strcmp(above, "/") == 0) return path[0] == '/';
    return strncmp(path, above, size) == 0 && (path[size] == '/' || path[size] == '\0');
}
