/*
 * How two sides are compared within one run of one program: they take turns in segments of about a
 * millisecond, since two runs of one program differ by more than what is looked for. What the
 * measuring programs of `ferriband-dev bench` and `ferriband repro 003` begin with.
 *
 * A program prints lines "NAME/NUMBER FIGURE", seconds unless it says otherwise.
 */
#define _GNU_SOURCE
#include <ferriband_mpi.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The most segments, bytes of a message, messages of a window. */
enum { MOST_SEGMENTS = 400, LONGEST = 1 << 20, WINDOW = 32 };

static int rank, size;
/* Of the two ranks that talk, the first one. */
static int first;
/* Segments of a side. */
static int segments = MOST_SEGMENTS;
/* Messages of a window. */
static int window = WINDOW;
static char *out[WINDOW], *in[WINDOW];
/* Without and with, each segment's figure. */
static double sides[2][MOST_SEGMENTS], ratios[MOST_SEGMENTS];

static void begin(int *argc, char ***argv)
{
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < WINDOW; i++) {
		out[i] = calloc(1, LONGEST);
		in[i] = calloc(1, LONGEST);
		if (out[i] == NULL || in[i] == NULL)
			MPI_Abort(MPI_COMM_WORLD, 6);
	}
}

static int by_value(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

static void say(const char *name, int number, double figure)
{
	if (rank == 0) {
		printf("%s/%d %.9g\n", name, number, figure);
		fflush(stdout);
	}
}

static void ping_pong(int length, int times)
{
	int other = 2 * first + 1 - rank;
	for (int i = 0; i < times; i++) {
		if (rank == first)
			MPI_Send(out[0], length, MPI_BYTE, other, 1, MPI_COMM_WORLD);
		MPI_Recv(in[0], length, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank != first)
			MPI_Send(out[0], length, MPI_BYTE, other, 1, MPI_COMM_WORLD);
	}
}

/* A window of messages one way, then an answer. */
static void stream(int length, int times)
{
	MPI_Request requests[WINDOW];
	for (int i = 0; i < times; i++) {
		for (int j = 0; j < window; j++) {
			if (rank == 0)
				MPI_Isend(out[j], length, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[j]);
			else
				MPI_Irecv(in[j], length, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[j]);
		}
		MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
		ping_pong(4, 1);
	}
}

/* Medians of both sides and of the ratios of neighbours, with that median's 95 % interval: as many
 * ratios lie below it as coins fall on one side, so its ends are 0.98 times the root of their
 * number from the middle. */
static void tell(const char *name, int number)
{
	static const char *const what[] = { "with", "without", "ratio", "low", "high" };
	int middle = segments / 2, root = 0;

	while ((root + 1) * (root + 1) <= segments)
		root++;
	int apart = (98 * root + 99) / 100;
	int low = middle > apart ? middle - apart : 0, high = middle + apart < segments ? middle + apart : segments - 1;

	for (int i = 0; i < segments; i++)
		ratios[i] = sides[1][i] / sides[0][i];
	qsort(sides[0], segments, sizeof **sides, by_value);
	qsort(sides[1], segments, sizeof **sides, by_value);
	qsort(ratios, segments, sizeof *ratios, by_value);
	double figures[] = { sides[1][middle], sides[0][middle], ratios[middle], ratios[low], ratios[high] };
	for (int i = 0; i < 5; i++) {
		char key[64];
		snprintf(key, sizeof key, "%s-%s", name, what[i]);
		say(key, number, figures[i]);
	}
}

/* Repetitions that take about a millisecond: the first rank measures, and tells the other one. */
static int repetitions(void (*work)(int, int), int length)
{
	enum { MOST = 2000 };
	int tried = length > 65536 ? 2 : 20, times = tried;
	double start;

	work(length, tried);
	start = MPI_Wtime();
	work(length, tried);
	if (rank == first) {
		times = 1e-3 * tried / (MPI_Wtime() - start) + 1;
		times = times < MOST ? times : MOST;
		MPI_Send(&times, 1, MPI_INT, first + 1, 8, MPI_COMM_WORLD);
	} else {
		MPI_Recv(&times, 1, MPI_INT, first, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	return times;
}

/* Seconds of one repetition. What a segment begins with is not told: channels come back, caches
 * fill. */
static double segment(void (*work)(int, int), int length, int times)
{
	double start;

	ping_pong(8, 64);
	work(length, times / 4 + 1);
	start = MPI_Wtime();
	work(length, times);
	return (MPI_Wtime() - start) / times;
}

/* Two sides take turns in segments of about a millisecond within one run of the same processes;
 * each goes first in every second pair of segments. */
static void compare(void (*turn)(int), const char *name, void (*work)(int, int), int length, double share)
{
	int times;

	for (int i = 0; i < window; i++) {
		/* memory of its own, where the kernel would else read one page of zeros */
		memset(out[i], i + 1, length);
		memset(in[i], 0, length);
	}
	turn(0);
	times = repetitions(work, length);
	for (int i = 0; i < segments; i++)
		for (int j = 0; j < 2; j++) {
			int side = (i + j) % 2;
			turn(side);
			sides[side][i] = segment(work, length, times) * share;
		}
	tell(name, length);
}

static void switch_setting(const char *name, const char *value)
{
	if (ferriband_mpi_switch_setting(name, value) != 0)
		MPI_Abort(MPI_COMM_WORLD, 5);
}

static void acks(int with)
{
	switch_setting("acks", with ? "1" : "0");
}
