/* Operations of the program: whether operands keep the order of ranks, on predefined datatypes, pairs and derived ones with and without gaps, in each
   reduction, in place, blocking or not; functions that look at whole vectors; what is freed while it is used; MPI's own operations on what they apply to, and errors for the rest. */
#include "check.h"
#include <complex.h>
#include <stdbool.h>
#include <stddef.h>

#define MODULUS 1000003

/* Affine maps x -> a x + b: applied one after the other they do not commute. */
struct map {
	long a, b;
};

static struct map after(struct map first, struct map second)
{
	struct map both = { first.a * second.a % MODULUS, (first.b * second.a + second.b) % MODULUS };
	return both;
}

static struct map map_of(int who, int element)
{
	struct map map = { 2 + (who * 31 + element * 7) % 1000, (who * 17 + element) % 1000 };
	return map;
}

static MPI_Datatype expected_type;
static long calls;

/* What the datatype says of itself, from inside of a reduction. */
static void ask(MPI_Datatype type, int bytes)
{
	int size_of_it;
	CHECK(type == expected_type);
	CHECK(MPI_Type_size(type, &size_of_it) == MPI_SUCCESS && size_of_it == bytes);
	calls++;
}

static void compose(void *in, void *inout, int *length, MPI_Datatype *type)
{
	struct map *left = in, *right = inout;
	ask(*type, sizeof(struct map));
	for (int i = 0; i < *length; i++)
		right[i] = after(left[i], right[i]);
}

/* The same where the halves lie far apart and the second comes first. */
struct spread {
	long b, gap, a, end;
};

static void compose_spread(void *in, void *inout, int *length, MPI_Datatype *type)
{
	struct spread *left = in, *right = inout;
	ask(*type, 2 * sizeof(long));
	MPI_Aint lb, extent;
	CHECK(MPI_Type_get_extent(*type, &lb, &extent) == MPI_SUCCESS && extent == sizeof(struct spread));
	for (int i = 0; i < *length; i++) {
		struct map one = { left[i].a, left[i].b }, two = { right[i].a, right[i].b };
		one = after(one, two);
		right[i].a = one.a;
		right[i].b = one.b;
	}
}

static void compose_large(void *in, void *inout, MPI_Count *length, MPI_Datatype *type)
{
	int count = (int)*length;
	compose(in, inout, &count, type);
}

static void add_pairs(void *in, void *inout, int *length, MPI_Datatype *type)
{
	struct {
		double value;
		int index;
	} *left = in, *right = inout;
	ask(*type, 12);
	for (int i = 0; i < *length; i++) {
		right[i].value += left[i].value;
		right[i].index += left[i].index;
	}
}

static struct map over_all(int first, int last, int element)
{
	struct map all = map_of(first, element);
	for (int who = first + 1; who <= last; who++)
		all = after(all, map_of(who, element));
	return all;
}

static void over(MPI_Request *request, int begun)
{
	CHECK(begun == MPI_SUCCESS);
	CHECK(MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

static int is(struct map got, struct map wanted)
{
	return got.a == wanted.a && got.b == wanted.b;
}

static void maps(MPI_Op op, MPI_Datatype type, int count)
{
	long all = (long)count * size;
	struct map *out = malloc((all + 1) * sizeof *out), *in = malloc((all + 1) * sizeof *in);
	MPI_Request request;
	int root = count % size, *counts = malloc(size * sizeof *counts), before = 0;
	expected_type = type;
	for (long i = 0; i < all; i++)
		out[i] = map_of(rank, (int)i);

	CHECK(MPI_Reduce(out, in, count, type, op, root, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < count && rank == root; i++)
		CHECK(is(in[i], over_all(0, size - 1, i)));
	CHECK(MPI_Allreduce(out, in, count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < count; i++)
		CHECK(is(in[i], over_all(0, size - 1, i)));
	memcpy(in, out, count * sizeof *in);
	over(&request, MPI_Iallreduce(MPI_IN_PLACE, in, count, type, op, MPI_COMM_WORLD, &request));
	for (int i = 0; i < count; i++)
		CHECK(is(in[i], over_all(0, size - 1, i)));
	memcpy(in, out, count * sizeof *in);
	over(&request, MPI_Ireduce(rank == root ? MPI_IN_PLACE : (void *)in, rank == root ? in : NULL, count, type, op, root, MPI_COMM_WORLD, &request));
	for (int i = 0; i < count && rank == root; i++)
		CHECK(is(in[i], over_all(0, size - 1, i)));

	CHECK(MPI_Scan(out, in, count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < count; i++)
		CHECK(is(in[i], over_all(0, rank, i)));
	over(&request, MPI_Iexscan(out, in, count, type, op, MPI_COMM_WORLD, &request));
	for (int i = 0; i < count && rank > 0; i++)
		CHECK(is(in[i], over_all(0, rank - 1, i)));

	CHECK(MPI_Reduce_scatter_block(out, in, count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < count; i++)
		CHECK(is(in[i], over_all(0, size - 1, rank * count + i)));
	for (int i = 0; i < size; i++)
		counts[i] = i % 2 ? count / 2 : count;
	for (int i = 0; i < rank; i++)
		before += counts[i];
	over(&request, MPI_Ireduce_scatter(out, in, counts, type, op, MPI_COMM_WORLD, &request));
	for (int i = 0; i < counts[rank]; i++)
		CHECK(is(in[i], over_all(0, size - 1, before + i)));
	memcpy(in, out, all * sizeof *in);
	CHECK(MPI_Reduce_scatter(MPI_IN_PLACE, in, counts, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < counts[rank]; i++)
		CHECK(is(in[i], over_all(0, size - 1, before + i)));

	for (int i = 0; i < count; i++)
		in[i] = map_of(size, i);
	CHECK(MPI_Reduce_local(out, in, count, type, op) == MPI_SUCCESS);
	for (int i = 0; i < count; i++)
		CHECK(is(in[i], after(map_of(rank, i), map_of(size, i))));
	free(out);
	free(in);
	free(counts);
}

/* Elements with gaps: those of the result are left as they are. */
static void spread(MPI_Op op, MPI_Datatype type, int count)
{
	struct spread *out = malloc((count + 1) * sizeof *out), *in = malloc((count + 1) * sizeof *in);
	MPI_Request request;
	int root = count % size;
	expected_type = type;
	for (int turn = 0; turn < 5; turn++) {
		for (int i = 0; i < count; i++) {
			struct map map = map_of(rank, i);
			struct spread one = { map.b, -1, map.a, -2 }, none = { -3, -4, -5, -6 };
			out[i] = one;
			in[i] = none;
			if (turn == 1 || turn == 4)
				in[i].a = map.a, in[i].b = map.b;
		}
		int first = 0, last = size - 1;
		switch (turn) {
		case 0:
			CHECK(MPI_Allreduce(out, in, count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
			break;
		case 1:
			over(&request, MPI_Iallreduce(MPI_IN_PLACE, in, count, type, op, MPI_COMM_WORLD, &request));
			break;
		case 2:
			CHECK(MPI_Scan(out, in, count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
			last = rank;
			break;
		case 3:
			CHECK(MPI_Reduce(out, in, count, type, op, root, MPI_COMM_WORLD) == MPI_SUCCESS);
			first = rank == root ? 0 : -1;
			break;
		default:
			over(&request, MPI_Iexscan(MPI_IN_PLACE, in, count, type, op, MPI_COMM_WORLD, &request));
			last = rank - 1;
			first = rank == 0 ? -1 : 0;
		}
		for (int i = 0; i < count; i++) {
			CHECK(in[i].gap == -4 && in[i].end == -6);
			struct map got = { in[i].a, in[i].b };
			if (first >= 0)
				CHECK(is(got, over_all(first, last, i)));
		}
	}
	free(out);
	free(in);
}

static void pairs(void)
{
	MPI_Op op;
	struct {
		double value;
		int index;
	} out[3], in[3];
	CHECK(MPI_Op_create(add_pairs, 1, &op) == MPI_SUCCESS);
	expected_type = MPI_DOUBLE_INT;
	for (int i = 0; i < 3; i++)
		out[i].value = rank + i * 0.5, out[i].index = i * rank;
	CHECK(MPI_Allreduce(out, in, 3, MPI_DOUBLE_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < 3; i++)
		CHECK(in[i].value == size * (size - 1) / 2 + size * i * 0.5 && in[i].index == i * size * (size - 1) / 2);
	CHECK(MPI_Op_free(&op) == MPI_SUCCESS && op == MPI_OP_NULL);
	for (int i = 0; i < 3; i++)
		out[i].value = (rank + i) % size, out[i].index = rank;
	CHECK(MPI_Allreduce(out, in, 3, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < 3; i++)
		CHECK(in[i].value == size - 1 && in[i].index == (2 * size - 1 - i % size) % size);
	CHECK(MPI_Allreduce(out, in, 3, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < 3; i++)
		CHECK(in[i].value == 0 && in[i].index == (size - i % size) % size);
}

/* Everything is freed as soon as it is under way. */
static void early(void)
{
	enum { COUNT = 20000 };
	static struct map out[COUNT], in[COUNT];
	MPI_Request request;
	MPI_Datatype type;
	MPI_Op op;
	CHECK(MPI_Type_contiguous(2, MPI_LONG, &type) == MPI_SUCCESS && MPI_Type_commit(&type) == MPI_SUCCESS);
	CHECK(MPI_Op_create(compose, 0, &op) == MPI_SUCCESS);
	expected_type = type;
	for (int i = 0; i < COUNT; i++)
		out[i] = map_of(rank, i);
	CHECK(MPI_Iallreduce(out, in, COUNT, type, op, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
	CHECK(MPI_Op_free(&op) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&type) == MPI_SUCCESS);
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	for (int i = 0; i < COUNT; i++)
		CHECK(is(in[i], over_all(0, size - 1, i)));
}

/* Sets of numbers, sorted, behind how many there are: what is in a set is known from its first element, so the function works on whole vectors alone. */
static int whole;

static void unite(void *in, void *inout, int *length, MPI_Datatype *type)
{
	int *left = in, *right = inout, at = left[0], other = right[0], to = at + other;
	CHECK(*type == MPI_INT && *length == whole && to < whole);
	right[0] = to;
	for (; to > 0; to--)
		right[to] = other == 0 || (at > 0 && left[at] > right[other]) ? left[at--] : right[other--];
}

/* Each rank gives itself (but the third one nothing), in vectors of so many elements. */
static void sets(MPI_Op op, int length)
{
	int *out = calloc(length, sizeof *out), *in = calloc(length, sizeof *in), root = size / 2;
	MPI_Request request;
	whole = length;
	out[0] = rank != 2;
	out[1] = rank;
	for (int turn = 0; turn < 5; turn++) {
		int has = 1, last = size - 1;
		memcpy(in, out, length * sizeof *in);
		switch (turn) {
		case 0:
			CHECK(MPI_Allreduce(out, in, length, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
			break;
		case 1:
			over(&request, MPI_Iallreduce(MPI_IN_PLACE, in, length, MPI_INT, op, MPI_COMM_WORLD, &request));
			break;
		case 2:
			CHECK(MPI_Reduce(out, in, length, MPI_INT, op, root, MPI_COMM_WORLD) == MPI_SUCCESS);
			has = rank == root;
			break;
		case 3:
			over(&request, MPI_Ireduce(rank == 0 ? MPI_IN_PLACE : (void *)out, in, length, MPI_INT, op, 0, MPI_COMM_WORLD, &request));
			has = rank == 0;
			break;
		default:
			CHECK(MPI_Scan(out, in, length, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
			last = rank;
		}
		for (int who = 0, place = 0; has && who <= last; who++)
			if (who != 2)
				CHECK(in[++place] == who && in[0] >= place);
		CHECK(!has || in[0] == last + (last < 2));
	}
	free(out);
	free(in);
}

static void wholes(void)
{
	MPI_Op ordered, any;
	CHECK(MPI_Op_create(unite, 0, &ordered) == MPI_SUCCESS && MPI_Op_create(unite, 1, &any) == MPI_SUCCESS);
	sets(any, size + 2);
	sets(any, 2048);
	sets(ordered, size + 2);
	sets(ordered, 2048);
	sets(ordered, 300000);
	CHECK(MPI_Op_free(&ordered) == MPI_SUCCESS && MPI_Op_free(&any) == MPI_SUCCESS);
}

#define SUMS(type, handle) \
	do { \
		type one = (type)(rank + 1), got = 0; \
		CHECK(MPI_Allreduce(&one, &got, 1, handle, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS); \
		CHECK(got == (type)(size * (size + 1) / 2)); \
	} while (0)

static void own(void)
{
	int flag;
	SUMS(signed char, MPI_SIGNED_CHAR);
	SUMS(unsigned short, MPI_UNSIGNED_SHORT);
	SUMS(long long, MPI_LONG_LONG);
	SUMS(float, MPI_FLOAT);
	SUMS(long double, MPI_LONG_DOUBLE);
	SUMS(float complex, MPI_C_FLOAT_COMPLEX);
	SUMS(double complex, MPI_C_DOUBLE_COMPLEX);
	SUMS(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
	SUMS(MPI_Aint, MPI_AINT);
	SUMS(MPI_Count, MPI_COUNT);
	bool mine = rank == size - 1, any;
	CHECK(MPI_Allreduce(&mine, &any, 1, MPI_C_BOOL, MPI_LOR, MPI_COMM_WORLD) == MPI_SUCCESS && any);
	CHECK(MPI_Allreduce(&mine, &any, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD) == MPI_SUCCESS && any == (size == 1));
	unsigned char bits = (unsigned char)(1 << rank % 8), found;
	CHECK(MPI_Allreduce(&bits, &found, 1, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD) == MPI_SUCCESS);
	CHECK(found == (size >= 8 ? 255 : (1 << size) - 1));

	double x = 1;
	CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_BXOR, MPI_COMM_WORLD)) == MPI_ERR_OP);
	CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_MAXLOC, MPI_COMM_WORLD)) == MPI_ERR_OP);
	CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_OP_NULL, MPI_COMM_WORLD)) == MPI_ERR_OP);
	CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX, MPI_COMM_WORLD)) == MPI_ERR_OP);
	CHECK(MPI_Op_commutative(MPI_SUM, &flag) == MPI_SUCCESS && flag);
	MPI_Op sum = MPI_SUM;
	CHECK(class_of(MPI_Op_free(&sum)) == MPI_ERR_OP && sum == MPI_SUM);
	CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_PROD)) == MPI_PROD);
}

int main(int argc, char **argv)
{
	static const int counts[] = { 1, 0, 3, 200, 5000 };
	MPI_Op ordered, large, far;
	MPI_Datatype type, gappy;
	int flag, blocks[2] = { 1, 1 };
	MPI_Aint at[2] = { offsetof(struct spread, a), offsetof(struct spread, b) };
	MPI_Datatype longs[2] = { MPI_LONG, MPI_LONG }, plain;
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	CHECK(MPI_Type_contiguous(2, MPI_LONG, &type) == MPI_SUCCESS && MPI_Type_commit(&type) == MPI_SUCCESS);
	CHECK(MPI_Type_create_struct(2, blocks, at, longs, &plain) == MPI_SUCCESS);
	CHECK(MPI_Type_create_resized(plain, 0, sizeof(struct spread), &gappy) == MPI_SUCCESS && MPI_Type_commit(&gappy) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&plain) == MPI_SUCCESS);
	CHECK(MPI_Op_create(compose, 0, &ordered) == MPI_SUCCESS);
	CHECK(MPI_Op_create_c(compose_large, 0, &large) == MPI_SUCCESS);
	CHECK(MPI_Op_create(compose_spread, 0, &far) == MPI_SUCCESS);
	CHECK(MPI_Op_commutative(ordered, &flag) == MPI_SUCCESS && !flag);
	CHECK(MPI_Op_fromint(MPI_Op_toint(ordered)) == ordered);
	CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &at, 1, type, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_OP);
	for (int turn = 0; turn < 5; turn++) {
		maps(ordered, type, counts[turn]);
		maps(large, type, counts[turn]);
		spread(far, gappy, counts[turn]);
	}
	CHECK(calls > 0);
	pairs();
	early();
	wholes();
	own();
	CHECK(MPI_Op_free(&ordered) == MPI_SUCCESS && MPI_Op_free(&large) == MPI_SUCCESS && MPI_Op_free(&far) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&type) == MPI_SUCCESS && MPI_Type_free(&gappy) == MPI_SUCCESS);
	return end("operations");
}
