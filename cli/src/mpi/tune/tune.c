/*
 * What `ferriband mpi-tune` measures: blocking collectives, each with some lengths.
 *
 * Prints lines "OPERATION/BYTES SECONDS": bytes of the vector, of what one rank contributes, or of what goes to one rank, as the table of algorithms counts them.
 * The first argument names the longest length, the others operations; without them all.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 15, MOST = 500 };
static const double BATCH = 0.001, WHOLE = 0.012;

static int rank, size;
static char *out, *in;

typedef void Work(int length, int turn);

static void barrier(int length, int turn)
{
	(void)length, (void)turn;
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Roots go round, so that none runs ahead of the others. */
static void bcast(int length, int turn)
{
	MPI_Bcast(out, length, MPI_BYTE, turn % size, MPI_COMM_WORLD);
}

static void reduce(int length, int turn)
{
	MPI_Reduce(out, in, length / 8, MPI_DOUBLE, MPI_SUM, turn % size, MPI_COMM_WORLD);
}

static void allreduce(int length, int turn)
{
	(void)turn;
	MPI_Allreduce(out, in, length / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(int length, int turn)
{
	MPI_Gather(out, length, MPI_BYTE, in, length, MPI_BYTE, turn % size, MPI_COMM_WORLD);
}

static void scatter(int length, int turn)
{
	MPI_Scatter(out, length, MPI_BYTE, in, length, MPI_BYTE, turn % size, MPI_COMM_WORLD);
}

static void allgather(int length, int turn)
{
	(void)turn;
	MPI_Allgather(out, length, MPI_BYTE, in, length, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(int length, int turn)
{
	(void)turn;
	MPI_Alltoall(out, length, MPI_BYTE, in, length, MPI_BYTE, MPI_COMM_WORLD);
}

static void reduce_scatter(int length, int turn)
{
	(void)turn;
	MPI_Reduce_scatter_block(out, in, length / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void scan(int length, int turn)
{
	(void)turn;
	MPI_Scan(out, in, length / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static const struct {
	const char *name;
	Work *work;
	/* Bytes that the table is asked with, of those of a block. */
	int blocks;
} operations[] = {
	{ "barrier", barrier, 0 },   { "bcast", bcast, 0 },	    { "reduce", reduce, 0 },	 { "allreduce", allreduce, 0 },
	{ "gather", gather, 0 },     { "scatter", scatter, 0 },	    { "allgather", allgather, 0 }, { "alltoall", alltoall, 0 },
	{ "reduce_scatter", reduce_scatter, 1 }, { "scan", scan, 0 },
};

static int by_value(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

/* Seconds until the last rank is done: a root may be done before anybody has begun. */
static double timed(Work *work, int length, int times)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (int i = 0; i < times; i++)
		work(length, i);
	double own = MPI_Wtime() - start, all;
	MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

/* Median seconds of one call over batches; rank 0 decides how many. */
static double median(Work *work, int length)
{
	double times[BATCHES];
	int count = 1, done = 0, more = 1;
	timed(work, length, size);
	double once = timed(work, length, 4) / 4;
	if (rank == 0)
		count = once > BATCH ? 1 : once < BATCH / MOST ? MOST : (int)(BATCH / once);
	MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
	double start = MPI_Wtime();
	while (more) {
		times[done++] = timed(work, length, count) / count;
		more = done < BATCHES && (done < 3 || MPI_Wtime() - start < WHOLE);
		MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	qsort(times, done, sizeof *times, by_value);
	return times[done / 2];
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	int longest = argc > 1 ? atoi(argv[1]) : 0;
	if (longest < 8)
		longest = 8;
	out = calloc(size, longest);
	in = calloc(size, longest);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (unsigned i = 0; i < sizeof operations / sizeof *operations; i++) {
		int wanted = argc < 3;
		for (int word = 2; word < argc; word++)
			wanted |= strcmp(argv[word], operations[i].name) == 0;
		for (int length = 8; wanted && length <= longest; length *= 4) {
			double seconds = median(operations[i].work, length);
			int bytes = operations[i].work == barrier ? 0 : operations[i].blocks ? length * size : length;
			if (rank == 0) {
				printf("%s/%d %.9g\n", operations[i].name, bytes, seconds);
				fflush(stdout);
			}
			if (bytes == 0)
				break;
		}
	}
	MPI_Finalize();
	return 0;
}
