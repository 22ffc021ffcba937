/* Collectives whose ranks lay out the same elements differently: three integers in a row, backwards, or far from each other; and gaps that stay. */
#include "check.h"

enum { TIGHT, BACKWARDS, WIDE, WAYS };
#define GAP (-77)

static const int extents[WAYS] = { 3, 3, 8 }; /* in integers */
static const int places[WAYS][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 5, 0, 2 } };
static MPI_Datatype types[WAYS];

static void make(void)
{
	for (int way = 0; way < WAYS; way++) {
		MPI_Datatype plain;
		CHECK(MPI_Type_create_indexed_block(3, 1, places[way], MPI_INT, &plain) == MPI_SUCCESS);
		CHECK(MPI_Type_create_resized(plain, 0, extents[way] * (MPI_Aint)sizeof(int), &types[way]) == MPI_SUCCESS);
		CHECK(MPI_Type_free(&plain) == MPI_SUCCESS);
		CHECK(MPI_Type_commit(&types[way]) == MPI_SUCCESS);
	}
}

/* A buffer of elements, with a guard behind them. */
static int *buffer(int way, long elements)
{
	long integers = elements * extents[way] + 16;
	int *made = malloc(integers * sizeof *made);
	for (long i = 0; i < integers; i++)
		made[i] = GAP;
	return made;
}

static int value(int from, int to, long element, int part)
{
	return (from * 64 + to) * 100003 + (int)element * 3 + part;
}

/* Elements from `at` on are those that `from` has for `to`. */
static void put(int *to_buffer, int way, long at, long count, int from, int to)
{
	for (long i = 0; i < count; i++)
		for (int part = 0; part < 3; part++)
			to_buffer[(at + i) * extents[way] + places[way][part]] = value(from, to, i, part);
}

static void same(const int *expected, const int *got, int way, long elements)
{
	CHECK(memcmp(expected, got, (elements * extents[way] + 16) * sizeof *got) == 0);
}

static int way_of(int who, int salt)
{
	return (who + salt) % WAYS;
}

static void over(MPI_Request *request, int begun)
{
	CHECK(begun == MPI_SUCCESS);
	CHECK(MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

/* From one to all, and from all to one. `turn` picks the layouts, whether blocks differ, whether it blocks, and what is in place. */
static void rooted(int turn, int count)
{
	int way = way_of(rank, turn), other = way_of(rank, turn / WAYS + 1), root = turn % size, waits = turn % 2, in_place = turn % 5 == 0;
	MPI_Request request;
	int *counts = malloc(size * sizeof *counts), *at = malloc(size * sizeof *at), all = 0;
	for (int i = 0; i < size; i++) {
		counts[i] = turn % 4 == 0 ? count : (count + i * 5) % (count + 3);
		at[i] = all + i;
		all = at[i] + counts[i];
	}
	int *one = buffer(way, count), *wanted = buffer(way, count);
	put(wanted, way, 0, count, root, 1);
	if (rank == root)
		put(one, way, 0, count, root, 1);
	if (waits)
		CHECK(MPI_Bcast(one, count, types[way], root, MPI_COMM_WORLD) == MPI_SUCCESS);
	else
		over(&request, MPI_Ibcast(one, count, types[way], root, MPI_COMM_WORLD, &request));
	same(wanted, one, way, count);
	free(one);
	free(wanted);

	int mine = counts[rank], here = in_place && rank == root;
	int *many = buffer(other, all), *expected = buffer(other, all), *own = buffer(way, mine);
	if (rank == root)
		for (int i = 0; i < size; i++)
			put(expected, other, at[i], counts[i], i, root);
	if (here)
		put(many, other, at[rank], mine, rank, root);
	put(own, way, 0, mine, rank, root);
	const void *from = here ? MPI_IN_PLACE : (void *)own;
	if (waits)
		CHECK(MPI_Gatherv(from, mine, types[way], many, counts, at, types[other], root, MPI_COMM_WORLD) == MPI_SUCCESS);
	else
		over(&request, MPI_Igatherv(from, mine, types[way], many, counts, at, types[other], root, MPI_COMM_WORLD, &request));
	same(expected, many, other, all);

	int *back = buffer(way, mine), *returned = buffer(way, mine);
	if (!here)
		put(returned, way, 0, mine, rank, root);
	void *into = here ? MPI_IN_PLACE : (void *)back;
	if (waits)
		CHECK(MPI_Scatterv(many, counts, at, types[other], into, mine, types[way], root, MPI_COMM_WORLD) == MPI_SUCCESS);
	else
		over(&request, MPI_Iscatterv(many, counts, at, types[other], into, mine, types[way], root, MPI_COMM_WORLD, &request));
	same(returned, back, way, mine);
	free(many);
	free(expected);
	free(own);
	free(back);
	free(returned);

	/* Equal blocks. */
	many = buffer(other, (long)count * size);
	expected = buffer(other, (long)count * size);
	own = buffer(way, count);
	back = buffer(way, count);
	put(own, way, 0, count, rank, root);
	if (rank == root)
		for (int i = 0; i < size; i++)
			put(expected, other, (long)i * count, count, i, root);
	CHECK(MPI_Gather(own, count, types[way], many, count, types[other], root, MPI_COMM_WORLD) == MPI_SUCCESS);
	same(expected, many, other, (long)count * size);
	CHECK(MPI_Scatter(many, count, types[other], back, count, types[way], root, MPI_COMM_WORLD) == MPI_SUCCESS);
	same(own, back, way, count);
	free(many);
	free(expected);
	free(own);
	free(back);
	free(counts);
	free(at);
}

/* From all to all. */
static void unrooted(int turn, int count)
{
	int way = way_of(rank, turn), other = way_of(rank, turn / WAYS + 2), in_place = turn % 3 == 0;
	MPI_Request request;
	long every = (long)count * size;
	int *own = buffer(way, count), *many = buffer(other, every), *expected = buffer(other, every);
	put(own, way, 0, count, rank, 5);
	for (int i = 0; i < size; i++)
		put(expected, other, (long)i * count, count, i, 5);
	if (in_place)
		put(many, other, (long)rank * count, count, rank, 5);
	CHECK(MPI_Allgather(in_place ? MPI_IN_PLACE : (void *)own, count, types[way], many, count, types[other], MPI_COMM_WORLD) == MPI_SUCCESS);
	same(expected, many, other, every);
	free(own);
	free(many);
	free(expected);

	/* Blocks that differ; in alltoallw each has its own layout, too. */
	int *counts = malloc(size * sizeof *counts), *at = malloc(size * sizeof *at), all = 0;
	for (int i = 0; i < size; i++) {
		counts[i] = (count + i * 7) % (count + 2);
		at[i] = all + 1;
		all = at[i] + counts[i];
	}
	own = buffer(way, counts[rank]);
	many = buffer(other, all);
	expected = buffer(other, all);
	put(own, way, 0, counts[rank], rank, 6);
	for (int i = 0; i < size; i++)
		put(expected, other, at[i], counts[i], i, 6);
	over(&request, MPI_Iallgatherv(own, counts[rank], types[way], many, counts, at, types[other], MPI_COMM_WORLD, &request));
	same(expected, many, other, all);
	free(own);
	free(many);
	free(expected);

	int *out = buffer(way, every), *in = buffer(other, every);
	expected = buffer(other, every);
	for (int i = 0; i < size; i++) {
		put(out, way, (long)i * count, count, rank, i);
		put(expected, other, (long)i * count, count, i, rank);
	}
	CHECK(MPI_Alltoall(out, count, types[way], in, count, types[other], MPI_COMM_WORLD) == MPI_SUCCESS);
	same(expected, in, other, every);
	if (in_place) {
		/* Back again: what came from each is sent to each. */
		free(in);
		in = buffer(other, every);
		for (int i = 0; i < size; i++)
			put(in, other, (long)i * count, count, rank, i);
		CHECK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, count, types[other], MPI_COMM_WORLD) == MPI_SUCCESS);
		same(expected, in, other, every);
	}
	free(out);
	free(in);
	free(expected);

	/* Between two ranks as many as their sum says. */
	int *to = malloc(size * sizeof *to), *to_at = malloc(size * sizeof *to_at);
	int *ways = malloc(size * sizeof *ways);
	MPI_Datatype *kinds = malloc(size * sizeof *kinds), *from_kinds = malloc(size * sizeof *from_kinds);
	all = 0;
	for (int i = 0; i < size; i++) {
		to[i] = (rank + i + turn) % (count + 1);
		to_at[i] = all;
		all += to[i] + 1;
		ways[i] = (i + turn + rank) % WAYS;
		kinds[i] = types[way];
		from_kinds[i] = types[ways[i]];
	}
	out = buffer(way, all);
	in = buffer(other, all);
	expected = buffer(other, all);
	for (int i = 0; i < size; i++) {
		put(out, way, to_at[i], to[i], rank, i);
		put(expected, other, to_at[i], to[i], i, rank);
	}
	CHECK(MPI_Alltoallv(out, to, to_at, types[way], in, to, to_at, types[other], MPI_COMM_WORLD) == MPI_SUCCESS);
	same(expected, in, other, all);
	free(in);
	free(expected);

	int bytes = (int)sizeof(int);
	long room = 0;
	int *in_at = malloc(size * sizeof *in_at), *out_at = malloc(size * sizeof *out_at);
	for (int i = 0; i < size; i++) {
		out_at[i] = to_at[i] * extents[way] * bytes;
		in_at[i] = (int)room * bytes;
		room += to[i] * extents[ways[i]] + 3;
	}
	in = buffer(TIGHT, room);
	expected = buffer(TIGHT, room);
	for (int i = 0; i < size; i++)
		put(expected + in_at[i] / bytes, ways[i], 0, to[i], i, rank);
	over(&request, MPI_Ialltoallw(out, to, out_at, kinds, in, to, in_at, from_kinds, MPI_COMM_WORLD, &request));
	same(expected, in, TIGHT, room);
	free(out);
	free(in);
	free(expected);
	free(in_at);
	free(out_at);
	free(kinds);
	free(from_kinds);
	free(ways);
	free(to);
	free(to_at);
	free(counts);
	free(at);
}

/* A datatype is freed while a collective uses it. */
static void early(void)
{
	MPI_Datatype copy;
	MPI_Request request;
	int *out = buffer(WIDE, 4000), *in = buffer(WIDE, 4000L * size), *expected = buffer(WIDE, 4000L * size);
	put(out, WIDE, 0, 4000, rank, 9);
	for (int i = 0; i < size; i++)
		put(expected, WIDE, i * 4000L, 4000, i, 9);
	CHECK(MPI_Type_dup(types[WIDE], &copy) == MPI_SUCCESS);
	CHECK(MPI_Iallgather(out, 4000, copy, in, 4000, copy, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&copy) == MPI_SUCCESS);
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	same(expected, in, WIDE, 4000L * size);
	free(out);
	free(in);
	free(expected);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	make();
	static const int counts[] = { 1, 0, 5, 1000, 12, 30000 };
	for (int turn = 0; turn < 30; turn++) {
		int count = counts[turn % 6];
		rooted(turn, count);
		unrooted(turn, size > 4 && count > 10000 ? 3000 : count);
	}
	early();
	for (int way = 0; way < WAYS; way++)
		CHECK(MPI_Type_free(&types[way]) == MPI_SUCCESS);
	return end("mixed");
}
