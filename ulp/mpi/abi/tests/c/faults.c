/* Messages that are too long for their receives, and memory that is exhausted, under MPI_ERRORS_RETURN: the standard's class comes back, and work goes on. */
#include "check.h"
#include <sys/resource.h>

#define LONG 300000

/* A receive that is too short, of `length` bytes; then one that is not. */
static void truncated(int length)
{
	unsigned char *memory = malloc(length), guarded[9];
	MPI_Request requests[2];
	MPI_Status statuses[2], status;
	int value = 0;
	fill(memory, length, 1);
	memset(guarded, 0xee, sizeof guarded);
	if (rank == 0) {
		for (int i = 0; i < 4; i++)
			CHECK(MPI_Send(memory, length, MPI_BYTE, 1, i, MPI_COMM_WORLD) == MPI_SUCCESS);
		value = 4711;
		CHECK(MPI_Send(&value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD) == MPI_SUCCESS);
	} else if (rank == 1) {
		CHECK(class_of(MPI_Recv(guarded, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status)) == MPI_ERR_TRUNCATE);
		CHECK(guarded[8] == 0xee);
		CHECK(MPI_Irecv(guarded, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[0]) == MPI_SUCCESS);
		CHECK(class_of(MPI_Wait(&requests[0], &status)) == MPI_ERR_TRUNCATE && requests[0] == MPI_REQUEST_NULL);
		CHECK(MPI_Irecv(guarded, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[0]) == MPI_SUCCESS);
		CHECK(MPI_Irecv(memory, length, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
		CHECK(class_of(MPI_Waitall(2, requests, statuses)) == MPI_ERR_IN_STATUS);
		CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE && statuses[1].MPI_ERROR == MPI_SUCCESS);
		CHECK(holds(memory, length, 1) && guarded[8] == 0xee);
		CHECK(MPI_Recv(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &status) == MPI_SUCCESS && value == 4711);
	}
	free(memory);
}

/* Memory that begins where it was asked for. */
static void aligned(void)
{
	MPI_Info info;
	void *memory[4];
	char word[24];
	CHECK(MPI_Info_create(&info) == MPI_SUCCESS);
	for (size_t bytes = 4; bytes <= 1 << 21; bytes *= 8) {
		snprintf(word, sizeof word, "%zu", bytes);
		CHECK(MPI_Info_set(info, "mpi_minimum_memory_alignment", word) == MPI_SUCCESS);
		for (int i = 0; i < 4; i++) {
			CHECK(MPI_Alloc_mem(100 + i, info, &memory[i]) == MPI_SUCCESS);
			CHECK((size_t)memory[i] % bytes == 0);
			memset(memory[i], i, 100 + i);
		}
		for (int i = 0; i < 4; i++)
			CHECK(MPI_Free_mem(memory[i]) == MPI_SUCCESS);
	}
	CHECK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "much") == MPI_SUCCESS);
	CHECK(MPI_Alloc_mem(0, info, &memory[0]) == MPI_SUCCESS && MPI_Free_mem(memory[0]) == MPI_SUCCESS);
	CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
}

/* Messages for which there is no memory, and memory that there is not. */
static void exhausted(void)
{
	enum { COUNT = 40000, BYTES = 4000 };
	static unsigned char bytes[BYTES];
	struct rlimit limit, before;
	int value = 0, failures = 0;
	void *memory = NULL;
	MPI_Request *requests = NULL;
	CHECK(class_of(MPI_Alloc_mem((MPI_Aint)1 << 56, MPI_INFO_NULL, &memory)) == MPI_ERR_NO_MEM);
	if (rank == 0) {
		requests = malloc(COUNT * sizeof *requests);
		for (int i = 0; i < COUNT; i++)
			CHECK(MPI_Isend(bytes, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
		value = 5;
		CHECK(MPI_Send(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD) == MPI_SUCCESS);
		CHECK(MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
		free(requests);
	} else if (rank == 1) {
		long pages = 0;
		FILE *size = fopen("/proc/self/statm", "r");
		CHECK(size && fscanf(size, "%ld", &pages) == 1);
		fclose(size);
		CHECK(getrlimit(RLIMIT_AS, &before) == 0);
		limit = before;
		limit.rlim_cur = pages * 4096 + (24 << 20);
		CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
		/* The value comes behind 160 MB that nobody has asked for. */
		while (MPI_Recv(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
			if (failures++ == 0)
				CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) == MPI_ERR_NO_MEM);
			CHECK(setrlimit(RLIMIT_AS, &before) == 0);
		}
		CHECK(failures == 1 && value == 5);
		for (int i = 0; i < COUNT; i++)
			CHECK(MPI_Recv(bytes, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	aligned();
	if (size > 1) {
		truncated(100);
		truncated(LONG);
		if (argc > 1 || getenv("EXHAUSTED"))
			exhausted();
	}
	return end("faults");
}
