/* Memory of a long message that was good a moment ago and has lost a page since, which nobody looks
 * for: the message ends with MPI_ERR_BUFFER at both sides, at once, and all others come: those that
 * were on their way with it, and those behind it. Argument: whose memory; 2: in turn. */
#include "check.h"
#include <ferriband_mpi.h>
#include <sys/mman.h>

enum { LENGTH = 1 << 20, ROUNDS = 12, BESIDE = 3 };

static unsigned char *room(void)
{
	unsigned char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

int main(int argc, char **argv)
{
	struct ferriband_mpi_stats stats;
	begin(&argc, &argv);
	int whose = argc > 1 ? atoi(argv[1]) : getenv("WHOSE") ? atoi(getenv("WHOSE")) : 1;
	CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	unsigned char *memory = room(), *good[BESIDE];
	for (int i = 0; i < BESIDE; i++)
		good[i] = room();
	for (int round = 0; rank < 2 && round < ROUNDS; round++) {
		MPI_Request requests[2 + BESIDE];
		MPI_Status statuses[2 + BESIDE];
		int word = rank == 0 ? round : -1, used = 0, bad = whose == 2 ? round / 2 % 2 : whose;
		double begun = MPI_Wtime();
		fill(memory, LENGTH, round);
		if (round % 2 == 1 && rank == bad)
			CHECK(mprotect(memory + LENGTH / 2, 4096, PROT_NONE) == 0);
		for (int i = -1; i < BESIDE; i++) {
			unsigned char *buffer = i < 0 ? memory : good[i];
			if (i >= 0 && rank == 0)
				fill(buffer, LENGTH, round + i + 1);
			int code = rank == 0 ? MPI_Isend(buffer, LENGTH, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[used++])
					     : MPI_Irecv(buffer, LENGTH, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[used++]);
			CHECK(code == MPI_SUCCESS);
		}
		int code = rank == 0 ? MPI_Isend(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[used++])
				     : MPI_Irecv(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[used++]);
		CHECK(code == MPI_SUCCESS);
		code = MPI_Waitall(used, requests, statuses);
		if (round % 2 == 1) {
			CHECK(class_of(code) == MPI_ERR_IN_STATUS && class_of(statuses[0].MPI_ERROR) == MPI_ERR_BUFFER);
			for (int i = 1; i < used; i++)
				CHECK(statuses[i].MPI_ERROR == MPI_SUCCESS);
			CHECK(rank != bad || mprotect(memory + LENGTH / 2, 4096, PROT_READ | PROT_WRITE) == 0);
		} else {
			CHECK(code == MPI_SUCCESS && holds(memory, LENGTH, round));
		}
		for (int i = 0; i < BESIDE; i++)
			CHECK(holds(good[i], LENGTH, round + i + 1));
		CHECK(word == round);
		CHECK(MPI_Wtime() - begun < 20);
	}
	CHECK(ferriband_mpi_get_stats(&stats) == 0);
	CHECK(rank > 1 || stats.heals > 0);
	return end("torn");
}
