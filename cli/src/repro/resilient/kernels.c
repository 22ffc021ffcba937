/*
 * What `ferriband repro 003 fig5` and `table1` run: kernels of applications, each again and again.
 * turns.h comes before it. Compiled by our mpicc; with HPCC defined and a build of HPC Challenge
 * beside it, that benchmark's kernels are among them, unmodified. Its input lies in the directory
 * that the ranks begin in.
 *
 * usage: kernels times REPETITIONS KEYS
 *        kernels buffers REPETITIONS KEYS KERNEL
 *
 * `times` says seconds of a kernel without and with acknowledgements, in turns. `buffers` says the
 * bytes that messages of one kernel were buffered in at the most, as a mean of all ranks: what an
 * earlier one has made would stay.
 */
#ifdef HPCC
#include <hpcc.h>
#endif

enum { RANGE = 1 << 19 };

/* Keys of a rank, to be sorted. */
static int count;
/* The most bytes of buffers that this rank has seen; they are looked at in calls of MPI. */
static double most;
static int is_watched, calls;

/* Buffers of messages by verbs: blocks, mirrors, staging buffers of records, return words, logs. */
static double buffers(void)
{
	struct ferriband_mpi_stats stats;
	if (ferriband_mpi_get_stats(&stats) != 0)
		MPI_Abort(MPI_COMM_WORLD, 3);
	return stats.memory + stats.log;
}

static void look(void)
{
	if (is_watched && calls++ % 8 == 0) {
		double seen = buffers();
		most = seen > most ? seen : most;
	}
}

int MPI_Send(const void *buffer, int length, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
	int code = PMPI_Send(buffer, length, type, to, tag, comm);
	look();
	return code;
}

int MPI_Isend(const void *buffer, int length, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
	int code = PMPI_Isend(buffer, length, type, to, tag, comm, request);
	look();
	return code;
}

int MPI_Alltoallv(const void *from, const int *lengths, const int *places, MPI_Datatype type, void *to, const int *their_lengths,
		  const int *their_places, MPI_Datatype their_type, MPI_Comm comm)
{
	int code = PMPI_Alltoallv(from, lengths, places, type, to, their_lengths, their_places, their_type, comm);
	look();
	return code;
}

int MPI_Alltoall(const void *from, int length, MPI_Datatype type, void *to, int their_length, MPI_Datatype their_type, MPI_Comm comm)
{
	int code = PMPI_Alltoall(from, length, type, to, their_length, their_type, comm);
	look();
	return code;
}

static void check(int is_so, const char *what)
{
	if (!is_so) {
		fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
		MPI_Abort(MPI_COMM_WORLD, 8);
	}
}

/* Integer sort, as NPB's IS has it: keys are counted into buckets, the buckets' sizes are added up
 * over all ranks, and each rank gets the keys of its part of the range. */
static double sort(void)
{
	static unsigned state;
	int *keys = malloc(sizeof *keys * count), *by_rank = malloc(sizeof *keys * count), *sizes = calloc(4 * size, sizeof *sizes);
	int *theirs = sizes + size, *places = sizes + 2 * size, *their_places = sizes + 3 * size, received = 0, low, high;

	state = state * 7 + rank + 1;
	for (int i = 0; i < count; i++) {
		state = state * 1664525 + 1013904223;
		keys[i] = ((unsigned long long)state * RANGE) >> 32;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (int i = 0; i < count; i++)
		sizes[(long)keys[i] * size / RANGE]++;
	for (int i = 1; i < size; i++)
		places[i] = places[i - 1] + sizes[i - 1];
	for (int i = 0; i < count; i++)
		by_rank[places[(long)keys[i] * size / RANGE]++] = keys[i];
	for (int i = 0; i < size; i++)
		places[i] -= sizes[i];
	MPI_Alltoall(sizes, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < size; i++) {
		their_places[i] = received;
		received += theirs[i];
	}
	int *own = malloc(sizeof *own * (received + 1)), *ranks = calloc(RANGE / size + 2, sizeof *ranks);
	MPI_Alltoallv(by_rank, sizes, places, MPI_INT, own, theirs, their_places, MPI_INT, MPI_COMM_WORLD);
	low = ((long)rank * RANGE + size - 1) / size;
	high = ((long)(rank + 1) * RANGE + size - 1) / size;
	for (int i = 0; i < received; i++) {
		check(own[i] >= low && own[i] < high, "a key");
		ranks[own[i] - low]++;
	}
	long all = received, sum;
	MPI_Allreduce(&all, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	double taken = MPI_Wtime() - start;
	check(sum == (long)count * size, "the number of keys");
	free(keys), free(by_rank), free(sizes), free(own), free(ranks);
	return taken;
}

#ifdef HPCC
static HPCC_Params params;

static double linpack(void)
{
	params.HPLrdata.Gflops = -1000;
	HPL_main(0, NULL, &params.HPLrdata, &params.Failure);
	return params.HPLrdata.time;
}

static double transposition(void)
{
	params.PTRANSrdata.GBs = -1;
	PTRANS(&params);
	return params.PTRANSrdata.time;
}

/* A table for each rank of 16 KiB, however large the matrices are: a run has four updates of each
 * place of it, and the others are over in a fraction of their time. */
static double random_access(void)
{
	size_t memory = params.HPLMaxProcMem;

	params.HPLMaxProcMem = 1 << 15;
	HPCC_MPIRandomAccess(&params);
	params.HPLMaxProcMem = memory;
	check(rank != 0 || params.MPIRandomAccess_ErrorsFraction == 0, "random access");
	return params.MPIRandomAccess_time;
}

/* Seconds of so many operations: only their rate is told. */
static double transform(void)
{
	HPCC_MPIFFT(&params);
	check(rank != 0 || params.MPIFFT_maxErr < 1e-10, "the transform");
	return 1 / params.MPIFFTGflops;
}
#endif

/* In the order of the figure. */
static const struct {
	const char *name;
	double (*run)(void);
} kernels[] = {
	{ "sort", sort },
#ifdef HPCC
	{ "HPL", linpack }, { "PTRANS", transposition }, { "RandomAccess", random_access }, { "FFT", transform },
#endif
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* So many pairs of a kernel at the most, and no new one when it has had so many seconds. */
static int pairs_of(int kernel, int most_pairs, double seconds)
{
	double spent = 0, start = MPI_Wtime();
	int i;

	kernels[kernel].run();
	for (i = 0; i < most_pairs && spent < seconds; i++) {
		for (int j = 0; j < 2; j++) {
			int side = (i + j) % 2;
			MPI_Barrier(MPI_COMM_WORLD);
			acks(side);
			sides[side][i] = kernels[kernel].run();
			check(rank != 0 || sides[side][i] > 0, kernels[kernel].name);
		}
		spent = MPI_Wtime() - start;
		MPI_Bcast(&spent, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	}
	return i;
}

static void times(void)
{
	int most_pairs = segments;
	for (int kernel = 0; kernel < KERNELS; kernel++) {
		segments = pairs_of(kernel, most_pairs, 3);
		tell(kernels[kernel].name, size);
	}
}

static void memory(const char *name)
{
	is_watched = 1;
	for (int kernel = 0; kernel < KERNELS; kernel++) {
		double sum;
		if (strcmp(kernels[kernel].name, name) != 0)
			continue;
		for (int i = 0; i < segments; i++)
			kernels[kernel].run();
		double seen = buffers();
		most = seen > most ? seen : most;
		MPI_Reduce(&most, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
		say(kernels[kernel].name, size, sum / size);
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	segments = argc > 3 ? atoi(argv[2]) : 0;
	count = argc > 3 ? atoi(argv[3]) : 0;
	if (segments < 1 || segments > MOST_SEGMENTS || count < 1)
		MPI_Abort(MPI_COMM_WORLD, 2);
#ifdef HPCC
	check(HPCC_Init(&params) == 0, "the input");
#endif
	if (strcmp(argv[1], "times") == 0)
		times();
	else if (strcmp(argv[1], "buffers") == 0 && argc > 4)
		memory(argv[4]);
	else
		MPI_Abort(MPI_COMM_WORLD, 2);
#ifdef HPCC
	check(params.Failure == 0, "a result");
#endif
	MPI_Finalize();
	return 0;
}
