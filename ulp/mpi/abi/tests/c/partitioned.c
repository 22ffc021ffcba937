/* Partitioned messages: parts of other sizes at each side, made ready in any order, round after round, two between the same ranks at once. */
#include "check.h"

#define ROUNDS 6

static void ring(int out_parts, int in_parts, int total)
{
	int right = (rank + 1) % size, left = (rank + size - 1) % size;
	int *out[2], *in[2], flag, count;
	MPI_Request sends[2], receives[2];
	MPI_Status statuses[2];
	for (int i = 0; i < 2; i++) {
		out[i] = malloc(total * sizeof(int));
		in[i] = malloc(total * sizeof(int));
		MPI_Psend_init(out[i], out_parts, total / out_parts, MPI_INT, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]);
	}
	for (int i = 0; i < 2; i++)
		MPI_Precv_init(in[i], in_parts, total / in_parts, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]);
	CHECK(MPI_Parrived(receives[0], 0, &flag) == MPI_SUCCESS && flag);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 2; i++) {
			for (int at = 0; at < total; at++)
				out[i][at] = rank * 100000 + i * 50000 + round * 1000 + at;
			memset(in[i], 0xff, total * sizeof(int));
		}
		if (round % 2)
			MPI_Startall(2, receives);
		MPI_Startall(2, sends);
		if (round % 2 == 0)
			MPI_Startall(2, receives);
		CHECK(class_of(MPI_Pready(out_parts, sends[0])) != MPI_SUCCESS);
		MPI_Test(&sends[0], &flag, &statuses[0]);
		CHECK(!flag);
		if (size == 1) {
			MPI_Parrived(receives[0], 0, &flag);
			CHECK(!flag);
		}
		for (int part = out_parts - 1; part >= 0; part--)
			MPI_Pready(part, sends[0]);
		CHECK(class_of(MPI_Pready(0, sends[0])) != MPI_SUCCESS);
		if (round % 3 == 0) {
			MPI_Pready_range(0, out_parts - 1, sends[1]);
		} else {
			int *list = malloc(out_parts * sizeof(int));
			for (int part = 0; part < out_parts; part++)
				list[part] = (part + round) % out_parts;
			MPI_Pready_list(out_parts, list, sends[1]);
			free(list);
		}
		for (int part = 0; part < in_parts; part++) {
			do
				MPI_Parrived(receives[0], part, &flag);
			while (!flag);
			for (int at = part * (total / in_parts); at < (part + 1) * (total / in_parts); at++)
				CHECK(in[0][at] == left * 100000 + round * 1000 + at);
		}
		CHECK(MPI_Waitall(2, receives, statuses) == MPI_SUCCESS);
		MPI_Get_count(&statuses[1], MPI_INT, &count);
		CHECK(count == total && statuses[1].MPI_SOURCE == left && statuses[1].MPI_TAG == 5);
		for (int at = 0; at < total; at++)
			CHECK(in[1][at] == left * 100000 + 50000 + round * 1000 + at);
		CHECK(MPI_Waitall(2, sends, statuses) == MPI_SUCCESS);
	}
	for (int i = 0; i < 2; i++) {
		MPI_Request_free(&sends[i]);
		MPI_Request_free(&receives[i]);
		free(out[i]);
		free(in[i]);
	}
}

/* Counts are MPI_Count, in the plain calls, too: what an int cannot hold is not cut. */
static void wide(void)
{
	MPI_Count cut = 5 - ((MPI_Count)1 << 32), many = ((MPI_Count)1 << 33) + 3;
	int (*psend)(const void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request *) = MPI_Psend_init;
	int (*precv)(void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request *) = PMPI_Precv_init;
	char bytes[8];
	MPI_Datatype nothing;
	MPI_Request both[2];
	MPI_Status statuses[2];
	CHECK(class_of(MPI_Psend_init(bytes, 1, cut, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_INFO_NULL, both)) == MPI_ERR_COUNT);
	CHECK(class_of(psend(bytes, 1, cut, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_INFO_NULL, both)) == MPI_ERR_COUNT);
	CHECK(class_of(MPI_Precv_init(bytes, 1, cut, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_INFO_NULL, both)) == MPI_ERR_COUNT);
	CHECK(class_of(precv(bytes, 1, cut, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_INFO_NULL, both)) == MPI_ERR_COUNT);
	/* Very many elements of nothing. */
	MPI_Type_contiguous(0, MPI_INT, &nothing);
	MPI_Type_commit(&nothing);
	CHECK(MPI_Psend_init(bytes, 2, many, nothing, rank, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]) == MPI_SUCCESS);
	CHECK(MPI_Precv_init(bytes, 1, 2 * many, nothing, rank, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]) == MPI_SUCCESS);
	MPI_Startall(2, both);
	MPI_Pready_range(0, 1, both[0]);
	CHECK(MPI_Waitall(2, both, statuses) == MPI_SUCCESS);
	MPI_Request_free(&both[0]);
	MPI_Request_free(&both[1]);
	MPI_Type_free(&nothing);
}

int main(int argc, char **argv)
{
	MPI_Request request;
	int value = 1, flag;
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	wide();
	ring(1, 1, 1);
	ring(4, 4, 16);
	ring(12, 4, 48000);
	ring(4, 12, 480000);
	ring(3, 1000, 96000);
	/* Nobody on the other side. */
	MPI_Psend_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	MPI_Start(&request);
	MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
	CHECK(!flag);
	MPI_Pready(0, request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Request_free(&request);
	/* No partitions at all, of either side, and again. */
	for (int receives = 0; receives < 2; receives++) {
		MPI_Request both[2];
		MPI_Psend_init(&value, 0, 5, MPI_INT, (rank + 1) % size, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]);
		MPI_Precv_init(&value, receives, 0, MPI_INT, (rank + size - 1) % size, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]);
		for (int round = 0; round < 3; round++) {
			MPI_Status statuses[2];
			int count;
			MPI_Startall(2, both);
			CHECK(MPI_Waitall(2, both, statuses) == MPI_SUCCESS);
			CHECK(statuses[1].MPI_TAG == 8 && MPI_Get_count(&statuses[1], MPI_INT, &count) == MPI_SUCCESS && count == 0);
		}
		MPI_Request_free(&both[0]);
		MPI_Request_free(&both[1]);
	}
	MPI_Psend_init(&value, 0, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	MPI_Start(&request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Request_free(&request);
	/* Made and never begun. */
	MPI_Psend_init(&value, 1, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	MPI_Request_free(&request);
	MPI_Precv_init(&value, 1, 1, MPI_INT, (rank + size - 1) % size, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	MPI_Request_free(&request);
	MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
	CHECK(class_of(MPI_Pready(0, request)) == MPI_ERR_REQUEST);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return end("partitioned");
}
