/* scarce.c - what the shim itself takes from the system and may be refused: descriptors, memory
 * for an interpreter and for `environ`. A test refuses it one call after the other (drom_refuse).
 * What perl takes is perl's affair: it ends the request with "Out of memory!".
 */
#include "internal.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

static int calls, refused_call;

int drom_refuse(int call)
{
    int before = calls;
    calls = 0;
    refused_call = call;
    return before;
}

static int refused(int why)
{
    if (++calls != refused_call)
        return 0;
    errno = why;
    return 1;
}

PerlInterpreter *drom_new_perl(void) { return refused(ENOMEM) ? NULL : perl_alloc(); }

/* The current folder, to come back to: as a descriptor, for it may have no name any more. */
int drom_folder(void) { return refused(EMFILE) ? -1 : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC); }

int drom_memory_file(const char *name)
{
    return refused(EMFILE) ? -1 : memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

int drom_second_descriptor(int fd) { return refused(EMFILE) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3); }

void *drom_env_memory(size_t bytes) { return refused(ENOMEM) ? NULL : malloc(bytes); }
