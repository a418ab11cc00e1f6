/* counter.h - between the counter and those who turn it on: Devel::Drom (module.c) for a program
 * from its beginning, and a worker of the server (running.c) for a while.
 *
 * Ownership: what is counted is the counter's, until it counts anew; the words of `program` are
 * copied.
 */
#ifndef DROM_COUNTER_H
#define DROM_COUNTER_H

#include "EXTERN.h"
#include "perl.h"
#include <stdio.h>

/* Counts this interpreter from now on, from zero; 0: there is no memory for that. What is compiled
 * from now on counts, what has been compiled only after `counter_hook_tree`. */
int counter_begin(pTHX_ const char *program);
/* What counts already is entered as if it had been seen to: calls that are under way are none. */
void counter_enter_all(pTHX);
/* Operators compiled from now on are the usual ones. */
void counter_end(pTHX);
int counter_is_of(pTHX);
/* At once and without a word: the rest of this process is nobody's to count. */
void counter_stop(void);

/* Time between the two is nobody's. */
void counter_pause(pTHX);
void counter_go_on(pTHX);

/* The operators below `root` count, or are the usual ones again. */
void counter_hook_tree(OP *root, int is_on);

/* A child that was forked counts for itself: with the same subs, from zero. */
void counter_begin_anew(void);
void counter_forget(void);
/* After the end. */
void counter_write(FILE *out);

/* Memory is refused after so many calls; -1: never. For tests. */
void counter_refuse(long calls);

#endif
