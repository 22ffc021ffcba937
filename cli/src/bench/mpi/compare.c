/*
 * What `ferriband-dev bench --mpi` measures, compiled by each MPI's own compiler wrapper.
 *
 * Prints lines "NAME FIGURE", which the bench reads: seconds, bytes a second, messages a second or bytes. Each figure is the median of batches of
 * about a millisecond. Of two ranks that share memory a figure's line is followed by "line/NAME SECONDS": what a bare line of memory took one way just before and
 * just after, without any MPI. The host of a virtual machine may place its cores on one core's threads, on one chip or on two, anew whenever they have slept, and that
 * is most of what a short message takes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BATCHES = 101, MOST = 2000, LONGEST = 4 << 20, WINDOW = 64, MOST_RANKS = 64 };
/* Of a bare line: batches, turns of each, bytes between both lines, and how many times as long it may take after a figure as before. */
enum { LINE_BATCHES = 9, LINE_TURNS = 500, LINE_APART = 2048, PAGE = 4096 };
#define ALIKE 1.5

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
 * after each whether there is another one. At least `least` repetitions are a batch: fewer, and rank 0 may have been done before others began. */
static double median_of(Work *work, int length, double batch, double whole, int least)
{
	double times[BATCHES];
	int count = 1, done = 0, more = 1;
	work(length, 2);
	double once = timed(work, length, 2) / 2;
	if (rank == 0)
		count = once > batch ? 1 : once < batch / MOST ? MOST : (int)(batch / once);
	if (count < least)
		count = least;
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

static double median(Work *work, int length, double batch, double whole)
{
	return median_of(work, length, batch, whole, 1);
}

/* Two lines that ranks 0 and 1 share, if they are on one host and nothing else is measured. */
static volatile long *lines;

/* A page under a name that lives no longer than it takes both to find it; none unless both have a core each, as who waits there gives none away. */
static void share_lines(int is_bound)
{
	char name[64] = "";
	int file = -1, found;
	MPI_Allreduce(MPI_IN_PLACE, &is_bound, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (!is_bound)
		return;
	if (rank == 0) {
		snprintf(name, sizeof name, "/ferriband-bench-%d", getpid());
		file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
		if (file >= 0 && ftruncate(file, PAGE) != 0)
			file = -1;
	}
	MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank != 0)
		file = shm_open(name, O_RDWR, 0);
	void *at = file < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	found = at != MAP_FAILED;
	MPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (rank == 0)
		shm_unlink(name);
	lines = found ? at : NULL;
}

/* Seconds that a line takes from one rank to the other; 0 if there is none. */
static double line(void)
{
	static long turn;
	double times[LINE_BATCHES];
	if (!lines)
		return 0;
	volatile long *own = lines + (rank == 0 ? 0 : LINE_APART / sizeof *lines);
	volatile long *other = lines + (rank == 0 ? LINE_APART / sizeof *lines : 0);
	for (int batch = 0; batch < LINE_BATCHES; batch++) {
		double start = MPI_Wtime();
		for (int i = 0; i < LINE_TURNS; i++) {
			turn++;
			if (rank == 0)
				*own = turn;
			while (*other != turn)
				;
			if (rank != 0)
				*own = turn;
		}
		times[batch] = (MPI_Wtime() - start) / LINE_TURNS / 2;
	}
	qsort(times, LINE_BATCHES, sizeof *times, by_value);
	return times[LINE_BATCHES / 2];
}

static void say(const char *name, int length, double figure)
{
	if (rank == 0) {
		printf("%s/%d %.9g\n", name, length, figure);
		fflush(stdout);
	}
}

/* Says a figure of two ranks, and what a line took before and after it: nothing of that if these differ, and then it is no figure of one kind of line. */
static void say_with_line(const char *name, int length, double before, double figure)
{
	double after = line();
	say(name, length, figure);
	if (rank == 0 && lines) {
		int is_one = before < after * ALIKE && after < before * ALIKE;
		printf("line/%s/%d %.9g\n", name, length, is_one ? (before + after) / 2 : -1.0);
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

/* The root goes round, so that none runs ahead of the others: to be called with as many repetitions as there are ranks, or more. */
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

/* One core for each rank, if there are as many: the same for all implementations. Whether there are. */
static int bind(void)
{
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < size)
		return 0;
	for (int core = 0, seen = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, &all) || seen++ != rank)
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		return sched_setaffinity(0, sizeof one, &one) == 0;
	}
	return 0;
}

static void point_to_point(void)
{
	for (int length = 1; length <= 4096; length *= 2) {
		double before = line();
		say_with_line("latency", length, before, median(ping_pong, length, 0.001, 0.05) / 2);
	}
	for (int length = 1; length <= LONGEST; length *= 4) {
		double before = line();
		say_with_line("bandwidth", length, before, (double)length * WINDOW / median(stream, length, 0.001, 0.1));
	}
	double before = line();
	say_with_line("rate", 8, before, WINDOW / median(stream, 8, 0.001, 0.1));
}

static void collectives(void)
{
	static const int lengths[] = { 8, 1024, 32768 };
	double before = line();
	say_with_line("barrier", 0, before, median(barrier, 0, 0.001, 0.1));
	for (int i = 0; i < 3; i++) {
		before = line();
		say_with_line("allreduce", lengths[i], before, median(allreduce, lengths[i], 0.001, 0.1));
		before = line();
		say_with_line("bcast", lengths[i], before, median_of(bcast, lengths[i], 0.001, 0.1, size));
		before = line();
		say_with_line("alltoall", lengths[i], before, median(alltoall, lengths[i], 0.001, 0.1));
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
		share_lines(bind());
		point_to_point();
	} else if (strcmp(what, "collectives") == 0 && size <= MOST_RANKS) {
		out = room((size_t)32768 * size);
		in = room((size_t)32768 * size);
		memset(out, 0, (size_t)32768 * size);
		share_lines(bind() && size == 2);
		collectives();
	} else {
		if (rank == 0)
			fprintf(stderr, "compare: start, memory or collectives with up to %d ranks, or pairs with 2, not '%s' with %d\n", MOST_RANKS, what, size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Finalize();
	return 0;
}
