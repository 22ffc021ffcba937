/*
 * What `ferriband bench --mpi` measures, compiled by each MPI's own compiler wrapper.
 *
 * Prints lines "NAME FIGURE", which the bench reads: seconds, bytes a second, messages a second or bytes. Each figure is the median of batches of
 * about a millisecond.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 101, MOST = 2000, LONGEST = 4 << 20, WINDOW = 64, MOST_RANKS = 64 };

static int rank, size;
static char *out, *in;

/* One repetition, or as many as `times` says in one call. */
typedef void Work(int length, int times);

static int by_value(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

static void *room(size_t length)
{
	void *at = NULL;
	if (posix_memalign(&at, 4096, length) != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(at, 1, length);
	return at;
}

/* Seconds that `times` repetitions take, as rank 0 sees it. */
static double timed(Work *work, int length, int times)
{
	double start = MPI_Wtime();
	work(length, times);
	return MPI_Wtime() - start;
}

/* Median seconds of one repetition. A batch takes about `batch` seconds, all of them about `whole`; on a busy machine longer, but not without end: rank 0 says
 * after each whether there is another one. */
static double median(Work *work, int length, double batch, double whole)
{
	double times[BATCHES];
	int count = 1, done = 0, more = 1;
	work(length, 2);
	double once = timed(work, length, 2) / 2;
	if (rank == 0)
		count = once > batch ? 1 : once < batch / MOST ? MOST : (int)(batch / once);
	MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
	double start = MPI_Wtime();
	while (more) {
		times[done++] = timed(work, length, count) / count;
		more = done < BATCHES && (done < 3 || MPI_Wtime() - start < whole);
		MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	qsort(times, done, sizeof *times, by_value);
	return times[done / 2];
}

static void say(const char *name, int length, double figure)
{
	if (rank == 0) {
		printf("%s/%d %.9g\n", name, length, figure);
		fflush(stdout);
	}
}

static void ping_pong(int length, int times)
{
	for (int i = 0; i < times; i++) {
		if (rank == 0) {
			MPI_Send(out, length, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(in, length, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (rank == 1) {
			MPI_Recv(in, length, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, length, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
		}
	}
}

/* A window of messages one way, then a short answer. */
static void stream(int length, int times)
{
	MPI_Request requests[WINDOW];
	for (int i = 0; i < times; i++) {
		for (int j = 0; j < WINDOW; j++) {
			if (rank == 0)
				MPI_Isend(out, length, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[j]);
			else
				MPI_Irecv(in, length, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[j]);
		}
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(in, 4, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(out, 4, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
	}
}

static void barrier(int length, int times)
{
	(void)length;
	for (int i = 0; i < times; i++)
		MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int length, int times)
{
	for (int i = 0; i < times; i++)
		MPI_Allreduce(out, in, length / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* The root goes round, so that none runs ahead of the others. */
static void bcast(int length, int times)
{
	for (int i = 0; i < times; i++)
		MPI_Bcast(out, length, MPI_BYTE, i % size, MPI_COMM_WORLD);
}

static void alltoall(int length, int times)
{
	for (int i = 0; i < times; i++)
		MPI_Alltoall(out, length, MPI_BYTE, in, length, MPI_BYTE, MPI_COMM_WORLD);
}

/* Proportional memory of this process. */
static double own_memory(void)
{
	char line[256];
	double kib = 0;
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "Pss: %lf", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

/* One core for each rank, if there are as many: the same for all implementations. */
static void bind(void)
{
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < size)
		return;
	for (int core = 0, seen = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, &all) || seen++ != rank)
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		sched_setaffinity(0, sizeof one, &one);
		return;
	}
}

static void point_to_point(void)
{
	for (int length = 1; length <= 4096; length *= 2)
		say("latency", length, median(ping_pong, length, 0.001, 0.05) / 2);
	for (int length = 1; length <= LONGEST; length *= 4)
		say("bandwidth", length, (double)length * WINDOW / median(stream, length, 0.001, 0.1));
	say("rate", 8, WINDOW / median(stream, 8, 0.001, 0.1));
}

static void collectives(void)
{
	static const int lengths[] = { 8, 1024, 32768 };
	say("barrier", 0, median(barrier, 0, 0.001, 0.1));
	for (int i = 0; i < 3; i++) {
		say("allreduce", lengths[i], median(allreduce, lengths[i], 0.001, 0.1));
		say("bcast", lengths[i], median(bcast, lengths[i], 0.001, 0.1));
		say("alltoall", lengths[i], median(alltoall, lengths[i], 0.001, 0.1));
	}
}

static void memory(void)
{
	MPI_Alltoall(out, 8, MPI_BYTE, in, 8, MPI_BYTE, MPI_COMM_WORLD);
	/* All have spoken with all; what another rank shares with this one counts as long as that is there. */
	MPI_Barrier(MPI_COMM_WORLD);
	double sum = 0, own = own_memory();
	MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	say("memory", size, sum / size);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (strcmp(what, "start") == 0) {
		MPI_Barrier(MPI_COMM_WORLD);
	} else if (strcmp(what, "memory") == 0 && size <= MOST_RANKS) {
		out = room(8 * MOST_RANKS);
		in = room(8 * MOST_RANKS);
		memory();
	} else if (strcmp(what, "pairs") == 0 && size == 2) {
		out = room(LONGEST);
		in = room(LONGEST);
		bind();
		point_to_point();
	} else if (strcmp(what, "collectives") == 0 && size <= MOST_RANKS) {
		out = room((size_t)32768 * size);
		in = room((size_t)32768 * size);
		memset(out, 0, (size_t)32768 * size);
		bind();
		collectives();
	} else {
		if (rank == 0)
			fprintf(stderr, "compare: start, memory or collectives with up to %d ranks, or pairs with 2, not '%s' with %d\n", MOST_RANKS, what, size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Finalize();
	return 0;
}
