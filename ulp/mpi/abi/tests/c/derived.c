/* Messages of derived datatypes: random ones, with different maps and the same signature at both ends, short and long, from and to oneself; parts of
   them; what is cut; addresses from MPI_BOTTOM; types that are freed while messages are under way. Each byte has its place, and gaps stay as they are. */
#include "check.h"
#include <stddef.h>

#define FIELDS 6
#define LARGEST (1 << 22)

static unsigned long long state;

static unsigned next(unsigned bound)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)((state * 0x2545f4914f6cdd1dull) >> 33) % bound;
}

/* Elements: a structure of fields, so many times. */
struct shape {
	int fields, sizes[FIELDS], signature;
	MPI_Datatype kinds[FIELDS];
	MPI_Aint at[FIELDS];
	int rounds;
	MPI_Aint *places; /* of each round */
	MPI_Datatype type;
	int count, from_bottom;
	char *memory, *buffer; /* all of it, and what places count from */
	long length;
};

static void signature_of(struct shape *shape, int rounds)
{
	static const int widths[] = { 1, 2, 4, 8 };
	MPI_Datatype kinds[] = { MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE };
	shape->fields = 1 + (int)next(FIELDS);
	shape->signature = 0;
	for (int i = 0; i < shape->fields; i++) {
		unsigned kind = next(4);
		shape->kinds[i] = kinds[kind];
		shape->sizes[i] = widths[kind];
		shape->signature += widths[kind];
	}
	shape->rounds = rounds;
}

/* Where the fields lie, and the rounds: in any order, with gaps or without. */
static void lay_out(struct shape *shape)
{
	int order[FIELDS], lengths[FIELDS], dense = next(3) == 0, way = (int)next(7);
	MPI_Aint extent = 0, first = 0;
	for (int i = 0; i < shape->fields; i++)
		order[i] = i, lengths[i] = 1;
	for (int i = shape->fields - 1; i > 0 && !dense; i--) {
		int other = (int)next(i + 1), kept = order[i];
		order[i] = order[other];
		order[other] = kept;
	}
	for (int i = 0; i < shape->fields; i++) {
		shape->at[order[i]] = extent += dense ? 0 : next(5);
		extent += shape->sizes[order[i]];
	}
	extent += dense ? 0 : next(7);
	MPI_Datatype fields, element;
	CHECK(MPI_Type_create_struct(shape->fields, lengths, shape->at, shape->kinds, &fields) == MPI_SUCCESS);
	CHECK(MPI_Type_create_resized(fields, 0, extent, &element) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&fields) == MPI_SUCCESS);
	MPI_Aint stride = extent + (way >= 2 ? next(9) : 0);
	shape->places = malloc(sizeof *shape->places * shape->rounds);
	for (int i = 0; i < shape->rounds; i++)
		shape->places[i] = way == 3 ? -i * stride : i * stride;
	if (way == 4 || way == 5)
		for (int i = shape->rounds - 1; i > 0; i--) {
			int other = (int)next(i + 1);
			MPI_Aint kept = shape->places[i];
			shape->places[i] = shape->places[other];
			shape->places[other] = kept;
		}
	if (way == 3)
		first = -(shape->rounds - 1) * stride;
	shape->length = shape->rounds * stride + 64;
	shape->memory = malloc(shape->length);
	shape->buffer = shape->memory + 32 - first;
	shape->from_bottom = way == 5;
	shape->count = 1;
	switch (way) {
	case 0:
		shape->type = element;
		shape->count = shape->rounds;
		break;
	case 1:
		CHECK(MPI_Type_contiguous(shape->rounds, element, &shape->type) == MPI_SUCCESS);
		break;
	case 2:
	case 3:
		CHECK(MPI_Type_create_hvector(shape->rounds, 1, way == 3 ? -stride : stride, element, &shape->type) == MPI_SUCCESS);
		break;
	case 4:
		CHECK(MPI_Type_create_hindexed_block(shape->rounds, 1, shape->places, element, &shape->type) == MPI_SUCCESS);
		break;
	case 5: {
		MPI_Aint base, *all = malloc(sizeof *all * shape->rounds);
		CHECK(MPI_Get_address(shape->buffer, &base) == MPI_SUCCESS);
		for (int i = 0; i < shape->rounds; i++)
			all[i] = MPI_Aint_add(base, shape->places[i]);
		CHECK(MPI_Type_create_hindexed_block(shape->rounds, 1, all, element, &shape->type) == MPI_SUCCESS);
		free(all);
		break;
	}
	default:
		CHECK(MPI_Type_create_resized(element, 0, stride, &shape->type) == MPI_SUCCESS);
		shape->count = shape->rounds;
	}
	if (shape->type != element)
		CHECK(MPI_Type_free(&element) == MPI_SUCCESS);
	CHECK(MPI_Type_commit(&shape->type) == MPI_SUCCESS);
	int bytes;
	CHECK(MPI_Type_size(shape->type, &bytes) == MPI_SUCCESS);
	CHECK((long)bytes * shape->count == (long)shape->signature * shape->rounds);
}

static void *address(const struct shape *shape)
{
	return shape->from_bottom ? MPI_BOTTOM : shape->buffer;
}

static void give_back(struct shape *shape)
{
	if (shape->type != MPI_DATATYPE_NULL)
		CHECK(MPI_Type_free(&shape->type) == MPI_SUCCESS);
	free(shape->places);
	free(shape->memory);
}

/* Gaps are 0xee; the n-th of the first `bytes` bytes of data has a value of its own. */
static void set(struct shape *shape, int salt)
{
	long at = 0;
	memset(shape->memory, 0xee, shape->length);
	for (int i = 0; i < shape->rounds; i++)
		for (int j = 0; j < shape->fields; j++)
			for (int k = 0; k < shape->sizes[j]; k++, at++)
				shape->buffer[shape->places[i] + shape->at[j] + k] = (char)pattern(at, salt);
}

static int is_set(struct shape *shape, int salt, long bytes)
{
	long at = 0;
	char *expected = malloc(shape->length);
	memset(expected, 0xee, shape->length);
	char *buffer = expected + (shape->buffer - shape->memory);
	for (int i = 0; i < shape->rounds; i++)
		for (int j = 0; j < shape->fields; j++)
			for (int k = 0; k < shape->sizes[j] && at < bytes; k++, at++)
				buffer[shape->places[i] + shape->at[j] + k] = (char)pattern(at, salt);
	int same = memcmp(expected, shape->memory, shape->length) == 0;
	free(expected);
	return same;
}

/* What a status says of the first `bytes` bytes of the elements, in whole fields. */
static void counts_are(const struct shape *shape, MPI_Status *status, long bytes)
{
	int count, elements, expected = 0;
	long left = bytes, size = (long)shape->signature * shape->rounds / shape->count;
	while (left > 0) {
		left -= shape->sizes[expected % shape->fields];
		expected++;
	}
	CHECK(MPI_Get_count(status, shape->type, &count) == MPI_SUCCESS);
	CHECK(MPI_Get_elements(status, shape->type, &elements) == MPI_SUCCESS);
	CHECK(count == (bytes % size == 0 ? bytes / size : MPI_UNDEFINED));
	CHECK(elements == expected);
	MPI_Count large;
	CHECK(MPI_Get_elements_c(status, shape->type, &large) == MPI_SUCCESS);
	CHECK(large == expected);
}

static int rounds_for(int turn, int signature)
{
	static const int most[] = { 1, 3, 100, 9000, 70000, 300000, 2000000 };
	int bytes = most[turn % 7];
	return bytes <= signature ? 1 : 1 + (int)next(bytes / signature);
}

/* A message to the peer and one back, of the same signature; the peer's map is another. */
static void exchange(int turn, int peer)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];
	struct shape out, in;
	state = 88172645463325252ull + 1000003ull * turn;
	signature_of(&out, 0);
	out.rounds = rounds_for(turn, out.signature);
	in = out;
	state += 7919ull * (rank + 1);
	lay_out(&out);
	lay_out(&in);
	long bytes = (long)out.signature * out.rounds;
	CHECK(bytes <= LARGEST);
	set(&out, rank + turn);
	memset(in.memory, 0xee, in.length);
	switch (turn % 4) {
	case 0:
		CHECK(MPI_Sendrecv(address(&out), out.count, out.type, peer, turn, address(&in), in.count, in.type, peer, turn, MPI_COMM_WORLD, &statuses[1]) == MPI_SUCCESS);
		break;
	case 1: /* expected */
		CHECK(MPI_Irecv(address(&in), in.count, in.type, peer, turn, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
		CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
		CHECK(MPI_Isend(address(&out), out.count, out.type, peer, turn, MPI_COMM_WORLD, &requests[0]) == MPI_SUCCESS);
		CHECK(MPI_Type_free(&out.type) == MPI_SUCCESS && out.type == MPI_DATATYPE_NULL);
		CHECK(MPI_Waitall(2, requests, statuses) == MPI_SUCCESS);
		break;
	case 2: /* unexpected, and seen before it is received */
		CHECK(MPI_Issend(address(&out), out.count, out.type, peer, turn, MPI_COMM_WORLD, &requests[0]) == MPI_SUCCESS);
		CHECK(MPI_Probe(peer, turn, MPI_COMM_WORLD, &statuses[1]) == MPI_SUCCESS);
		counts_are(&in, &statuses[1], bytes);
		CHECK(MPI_Recv(address(&in), in.count, in.type, peer, turn, MPI_COMM_WORLD, &statuses[1]) == MPI_SUCCESS);
		CHECK(MPI_Wait(&requests[0], &statuses[0]) == MPI_SUCCESS);
		break;
	default: { /* the other side takes it as bytes, and sends bytes */
		char *packed = malloc(bytes);
		int at = 0;
		CHECK(MPI_Irecv(address(&in), in.count, in.type, peer, turn, MPI_COMM_WORLD, &requests[0]) == MPI_SUCCESS);
		CHECK(MPI_Pack(address(&out), out.count, out.type, packed, (int)bytes, &at, MPI_COMM_WORLD) == MPI_SUCCESS);
		CHECK(MPI_Isend(packed, at, MPI_PACKED, peer, turn, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
		CHECK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
		CHECK(MPI_Wait(&requests[0], &statuses[1]) == MPI_SUCCESS);
		free(packed);
	}
	}
	CHECK(statuses[1].MPI_SOURCE == peer && statuses[1].MPI_TAG == turn);
	counts_are(&in, &statuses[1], bytes);
	CHECK(is_set(&in, peer + turn, bytes));
	CHECK(is_set(&out, rank + turn, bytes));
	give_back(&out);
	give_back(&in);
}

/* The receiver has room for more, or for less. */
static void parts(int turn, int peer)
{
	MPI_Status status;
	struct shape in;
	state = 362436069ull + 69069ull * turn;
	signature_of(&in, 0);
	in.rounds = 2 + rounds_for(turn, in.signature);
	int fields = (int)next(in.fields * in.rounds + 1), less = turn % 3 == 0;
	long bytes = 0, all = (long)in.signature * in.rounds;
	for (int i = 0; i < fields; i++)
		bytes += in.sizes[i % in.fields];
	if (less)
		bytes = all + 1 + next(40000);
	unsigned char *packed = malloc(bytes + 1);
	fill(packed, bytes, turn);
	lay_out(&in);
	memset(in.memory, 0xee, in.length);
	if (rank < peer)
		CHECK(MPI_Send(packed, (int)bytes, MPI_BYTE, peer, turn, MPI_COMM_WORLD) == MPI_SUCCESS);
	if (rank > peer) {
		int code = MPI_Recv(address(&in), in.count, in.type, peer, turn, MPI_COMM_WORLD, &status);
		CHECK(less ? class_of(code) == MPI_ERR_TRUNCATE : code == MPI_SUCCESS);
		if (!less) {
			counts_are(&in, &status, bytes);
			CHECK(is_set(&in, turn, bytes));
		} else {
			/* What is beyond the elements is left alone, as their gaps are. */
			for (long i = 0; i < in.length; i++)
				in.memory[i] = (char)~in.memory[i];
			for (int i = 0; i < in.rounds; i++)
				for (int j = 0; j < in.fields; j++)
					memset(in.buffer + in.places[i] + in.at[j], 0x11, in.sizes[j]);
			for (long i = 0; i < in.length; i++)
				CHECK(in.memory[i] == 0x11);
		}
	}
	free(packed);
	give_back(&in);
}

/* To oneself, and in place of what is sent. */
static void alone(int turn)
{
	MPI_Status status;
	MPI_Request request;
	struct shape out, in;
	state = 521288629ull + 69621ull * turn;
	signature_of(&out, 0);
	out.rounds = rounds_for(turn, out.signature);
	in = out;
	lay_out(&out);
	lay_out(&in);
	long bytes = (long)out.signature * out.rounds;
	set(&out, turn);
	memset(in.memory, 0xee, in.length);
	if (turn % 2) {
		CHECK(MPI_Irecv(address(&in), in.count, in.type, 0, 1, MPI_COMM_SELF, &request) == MPI_SUCCESS);
		CHECK(MPI_Send(address(&out), out.count, out.type, 0, 1, MPI_COMM_SELF) == MPI_SUCCESS);
		CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
	} else {
		CHECK(MPI_Isend(address(&out), out.count, out.type, 0, 1, MPI_COMM_SELF, &request) == MPI_SUCCESS);
		CHECK(MPI_Recv(address(&in), in.count, in.type, 0, 1, MPI_COMM_SELF, &status) == MPI_SUCCESS);
		CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	}
	counts_are(&in, &status, bytes);
	CHECK(is_set(&in, turn, bytes));
	give_back(&in);

	int peer = size % 2 == 0 ? rank ^ 1 : rank;
	set(&out, rank);
	CHECK(MPI_Sendrecv_replace(address(&out), out.count, out.type, peer, 2, peer, 2, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
	counts_are(&out, &status, bytes);
	CHECK(is_set(&out, peer, bytes));
	give_back(&out);
}

/* Pairs, which have gaps of their own, types without data, and what is refused. */
static void corners(void)
{
	struct {
		double value;
		int index;
	} pairs[40], got[41];
	MPI_Datatype nothing, column;
	MPI_Status status;
	int count;
	memset(pairs, 0x55, sizeof pairs);
	memset(got, 0x77, sizeof got);
	for (int i = 0; i < 40; i++)
		pairs[i].value = i / 3.0, pairs[i].index = -i;
	CHECK(MPI_Sendrecv(pairs, 40, MPI_DOUBLE_INT, 0, 0, got, 41, MPI_DOUBLE_INT, 0, 0, MPI_COMM_SELF, &status) == MPI_SUCCESS);
	CHECK(MPI_Get_count(&status, MPI_DOUBLE_INT, &count) == MPI_SUCCESS && count == 40);
	CHECK(MPI_Get_elements(&status, MPI_DOUBLE_INT, &count) == MPI_SUCCESS && count == 80);
	for (int i = 0; i < 40; i++)
		CHECK(got[i].value == i / 3.0 && got[i].index == -i);

	CHECK(MPI_Type_contiguous(0, MPI_INT, &nothing) == MPI_SUCCESS);
	CHECK(class_of(MPI_Send(&count, 1, nothing, 0, 0, MPI_COMM_SELF)) == MPI_ERR_TYPE); /* not committed */
	CHECK(MPI_Type_commit(&nothing) == MPI_SUCCESS);
	CHECK(MPI_Sendrecv(NULL, 3, nothing, 0, 0, NULL, 5, nothing, 0, 0, MPI_COMM_SELF, &status) == MPI_SUCCESS);
	CHECK(MPI_Get_elements(&status, nothing, &count) == MPI_SUCCESS && count == 0);
	CHECK(MPI_Type_free(&nothing) == MPI_SUCCESS && nothing == MPI_DATATYPE_NULL);
	CHECK(class_of(MPI_Send(&count, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_SELF)) == MPI_ERR_TYPE);

	CHECK(MPI_Type_vector(4, 1, 3, MPI_INT, &column) == MPI_SUCCESS && MPI_Type_commit(&column) == MPI_SUCCESS);
	CHECK(class_of(MPI_Send(&count, -1, column, 0, 0, MPI_COMM_SELF)) == MPI_ERR_COUNT);
	CHECK(MPI_Type_free(&column) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	int turns = argc > 1 ? atoi(argv[1]) : 84, peer = rank ^ 1;
	corners();
	for (int turn = 0; turn < turns; turn++) {
		if (size % 2 == 0) {
			exchange(turn, peer);
			parts(turn, peer);
		}
		alone(turn);
	}
	return end("derived");
}
