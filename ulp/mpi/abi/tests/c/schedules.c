/* Every collective by its schedule: blocking and not, lengths that differ, in place, several under way at once, short and long. */
#include "check.h"

static int *counts, *places, total;

/* Rank r has so many elements: some have none. */
static int length(int r, int scale)
{
	return r % 3 * scale;
}

static int *room(int elements)
{
	int *all = malloc((size_t)(elements + 1) * sizeof(int));
	for (int i = 0; i < elements + 1; i++)
		all[i] = -1;
	return all;
}

static void lay_out(int scale)
{
	total = 0;
	for (int r = 0; r < size; r++) {
		counts[r] = length(r, scale);
		/* in reverse, with a gap between two blocks */
		places[size - 1 - r] = 0;
	}
	for (int r = size - 1; r >= 0; r--) {
		places[r] = total;
		total += counts[r] + 1;
	}
}

static void wait_now(MPI_Request *request)
{
	CHECK(MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS && *request == MPI_REQUEST_NULL);
}

/* Runs the blocking call, or the other one to its end. */
#define BOTH(name, iname, ...) \
	do { \
		if (blocking) { \
			CHECK(name(__VA_ARGS__) == MPI_SUCCESS); \
		} else { \
			MPI_Request request; \
			CHECK(iname(__VA_ARGS__, &request) == MPI_SUCCESS); \
			wait_now(&request); \
		} \
	} while (0)

static void uneven(int blocking, int scale)
{
	lay_out(scale);
	int own = counts[rank], *mine = room(own), *all = room(total);
	for (int i = 0; i < own; i++)
		mine[i] = rank * 100000 + i;
	for (int root = 0; root < size; root++) {
		BOTH(MPI_Gatherv, MPI_Igatherv, mine, own, MPI_INT, all, counts, places, MPI_INT, root, MPI_COMM_WORLD);
		if (rank == root)
			for (int r = 0; r < size; r++) {
				for (int i = 0; i < counts[r]; i++)
					CHECK(all[places[r] + i] == r * 100000 + i);
				CHECK(all[places[r] + counts[r]] == -1);
			}
		int *back = room(own);
		if (rank == root)
			BOTH(MPI_Scatterv, MPI_Iscatterv, all, counts, places, MPI_INT, MPI_IN_PLACE, own, MPI_INT, root, MPI_COMM_WORLD);
		else
			BOTH(MPI_Scatterv, MPI_Iscatterv, NULL, NULL, NULL, MPI_INT, back, own, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; rank != root && i < own; i++)
			CHECK(back[i] == mine[i]);
		free(back);
	}
	free(all);
	all = room(total);
	BOTH(MPI_Allgatherv, MPI_Iallgatherv, mine, own, MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++)
		for (int i = 0; i < counts[r]; i++)
			CHECK(all[places[r] + i] == r * 100000 + i);
	for (int r = 0; r < size; r++)
		for (int i = 0; r != rank && i < counts[r]; i++)
			all[places[r] + i] = -1;
	BOTH(MPI_Allgatherv, MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++)
		for (int i = 0; i < counts[r]; i++)
			CHECK(all[places[r] + i] == r * 100000 + i);
	free(all);

	/* Rank a sends (a + b) % 3 * scale elements to b: as many as it gets. */
	int *lengths = room(size), *at = room(size), *bytes = room(size), sum = 0;
	MPI_Datatype *types = malloc((size_t)size * sizeof(*types));
	for (int r = 0; r < size; r++) {
		lengths[r] = (rank + r) % 3 * scale;
		at[r] = sum;
		bytes[r] = sum * (int)sizeof(int);
		types[r] = MPI_INT;
		sum += lengths[r];
	}
	int *out = room(sum), *in = room(sum);
	for (int pass = 0; pass < 3; pass++) {
		for (int r = 0; r < size; r++)
			for (int i = 0; i < lengths[r]; i++) {
				out[at[r] + i] = rank * 1000000 + r * 10000 + i % 10000;
				in[at[r] + i] = pass < 2 ? -1 : out[at[r] + i];
			}
		if (pass == 0)
			BOTH(MPI_Alltoallv, MPI_Ialltoallv, out, lengths, at, MPI_INT, in, lengths, at, MPI_INT, MPI_COMM_WORLD);
		else if (pass == 1)
			BOTH(MPI_Alltoallw, MPI_Ialltoallw, out, lengths, bytes, types, in, lengths, bytes, types, MPI_COMM_WORLD);
		else
			BOTH(MPI_Alltoallv, MPI_Ialltoallv, MPI_IN_PLACE, NULL, NULL, MPI_INT, in, lengths, at, MPI_INT, MPI_COMM_WORLD);
		for (int r = 0; r < size; r++)
			for (int i = 0; i < lengths[r]; i++)
				CHECK(in[at[r] + i] == r * 1000000 + rank * 10000 + i % 10000);
	}
	free(types);
	free(out);
	free(in);
	free(lengths);
	free(at);
	free(bytes);
	free(mine);
}

static void even(int blocking, int count)
{
	int *mine = room(count), *all = room(size * count), *out = room(size * count);
	for (int root = 0; root < size; root++) {
		for (int i = 0; i < count; i++)
			mine[i] = rank == root ? root * 1000 + i : -1;
		BOTH(MPI_Bcast, MPI_Ibcast, mine, count, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; i < count; i++)
			CHECK(mine[i] == root * 1000 + i);
		for (int i = 0; i < count; i++)
			mine[i] = rank * 7 + i;
		BOTH(MPI_Gather, MPI_Igather, mine, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; rank == root && i < size * count; i++)
			CHECK(all[i] == i / count * 7 + i % count);
		memset(mine, 0xff, (size_t)count * sizeof(int));
		BOTH(MPI_Scatter, MPI_Iscatter, all, count, MPI_INT, mine, count, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; i < count; i++)
			CHECK(mine[i] == rank * 7 + i);
		for (int i = 0; i < count; i++)
			mine[i] = rank + i;
		if (rank == root) {
			memcpy(all, mine, (size_t)count * sizeof(int));
			BOTH(MPI_Reduce, MPI_Ireduce, MPI_IN_PLACE, all, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
			for (int i = 0; i < count; i++)
				CHECK(all[i] == size * (size - 1) / 2 + size * i);
		} else {
			BOTH(MPI_Reduce, MPI_Ireduce, mine, NULL, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
		}
	}
	BOTH(MPI_Allgather, MPI_Iallgather, mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < size * count; i++)
		CHECK(all[i] == i / count + i % count);
	for (int i = 0; i < size * count; i++)
		out[i] = rank * 100 + i / count;
	BOTH(MPI_Alltoall, MPI_Ialltoall, out, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < size * count; i++)
		CHECK(all[i] == i / count * 100 + rank);
	BOTH(MPI_Alltoall, MPI_Ialltoall, MPI_IN_PLACE, 0, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < size * count; i++)
		CHECK(out[i] == i / count * 100 + rank);
	BOTH(MPI_Allreduce, MPI_Iallreduce, mine, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		CHECK(all[i] == size * (size - 1) / 2 + size * i);
	BOTH(MPI_Scan, MPI_Iscan, mine, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		CHECK(all[i] == rank * (rank + 1) / 2 + (rank + 1) * i);
	for (int i = 0; i < count; i++)
		all[i] = -5;
	BOTH(MPI_Exscan, MPI_Iexscan, mine, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		CHECK(all[i] == (rank ? rank * (rank - 1) / 2 + rank * i : -5));
	for (int i = 0; i < size * count; i++)
		out[i] = rank + i;
	BOTH(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, out, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		CHECK(all[i] == size * (size - 1) / 2 + size * (rank * count + i));
	/* The same with lengths that differ, in place. */
	lay_out(count);
	int before = 0, whole = 0;
	for (int r = 0; r < size; r++) {
		before += r < rank ? counts[r] : 0;
		whole += counts[r];
	}
	int *place = room(whole);
	for (int i = 0; i < whole; i++)
		place[i] = rank * 2 + i;
	BOTH(MPI_Reduce_scatter, MPI_Ireduce_scatter, MPI_IN_PLACE, place, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < counts[rank]; i++)
		CHECK(place[i] == size * (size - 1) + size * (before + i));
	free(place);
	free(mine);
	free(all);
	free(out);
}

/* Many at once, waited for in another order; messages between two ranks go on meanwhile. */
static void many(void)
{
	enum { N = 12 };
	MPI_Request requests[2 * N];
	static int sums[N], values[N], told[N];
	for (int i = 0; i < N; i++) {
		values[i] = rank * (i + 1);
		told[i] = rank == i % size ? i * 11 : -1;
		CHECK(MPI_Iallreduce(&values[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2 * i]) == MPI_SUCCESS);
		CHECK(MPI_Ibcast(&told[i], 1, MPI_INT, i % size, MPI_COMM_WORLD, &requests[2 * i + 1]) == MPI_SUCCESS);
	}
	int got = -1, next = (rank + 1) % size, before = (rank + size - 1) % size;
	CHECK(MPI_Sendrecv(&rank, 1, MPI_INT, next, 0, &got, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(got == before);
	for (int i = N - 1; i >= N / 2; i--)
		wait_now(&requests[2 * i]);
	CHECK(MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	for (int i = 0; i < N; i++)
		CHECK(sums[i] == size * (size - 1) / 2 * (i + 1) && told[i] == i * 11);

	/* Nobody leaves before the last has come: it comes when it has heard that all others wait. */
	MPI_Request barrier;
	int done = 0, waits = 1;
	if (rank != size - 1) {
		CHECK(MPI_Ibarrier(MPI_COMM_WORLD, &barrier) == MPI_SUCCESS);
		for (int i = 0; i < 100; i++) {
			CHECK(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			CHECK(!done);
		}
		CHECK(MPI_Send(&waits, 1, MPI_INT, size - 1, 9, MPI_COMM_WORLD) == MPI_SUCCESS);
	} else {
		for (int i = 0; i < size - 1; i++)
			CHECK(MPI_Recv(&waits, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		CHECK(MPI_Ibarrier(MPI_COMM_WORLD, &barrier) == MPI_SUCCESS);
	}
	wait_now(&barrier);
}

static void refused(void)
{
	int value = 1, other = 0;
	MPI_Request request = MPI_REQUEST_NULL;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(class_of(MPI_Ibcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD, &request)) == MPI_ERR_ROOT);
	CHECK(class_of(MPI_Iallreduce(&value, &other, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request)) == MPI_ERR_COUNT);
	CHECK(class_of(MPI_Scan(&value, &other, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD)) == MPI_ERR_OP);
	CHECK(class_of(MPI_Exscan(&value, &other, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Blocking and non-blocking collectives that ranks begin in another order, which mpi4py's tests do: the standard forbids it, and everybody's messages of both are apart. */
static void crossed(void)
{
	for (int root = 0; root < size; root++) {
		int own = 1 << rank, all = -1, over;
		MPI_Request request;
		if (rank != root)
			MPI_Barrier(MPI_COMM_WORLD);
		CHECK(MPI_Iallreduce(&own, &all, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
		if (rank == root) {
			CHECK(MPI_Test(&request, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && (!over || size == 1));
			MPI_Barrier(MPI_COMM_WORLD);
		}
		CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && all == (1 << size) - 1);
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	counts = room(size);
	places = room(size);
	for (int blocking = 0; blocking < 2; blocking++) {
		static const int lengths[] = { 1, 7, 300, 5000, 40000 };
		for (int i = 0; i < 5; i++) {
			even(blocking, lengths[i]);
			uneven(blocking, lengths[i]);
		}
	}
	many();
	crossed();
	/* With an argument, for libraries that do not look at theirs: MPICH 5's wheel ends at a count of -1 or a null datatype. */
	if (argc == 1)
		refused();
	free(counts);
	free(places);
	return end("schedules");
}
