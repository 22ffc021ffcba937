/* Children of ranks that go on without exec: they end as programs do, call MPI or end badly, and their parents' job goes on. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 20, LONG = 300000 };

static unsigned char out[LONG], in[LONG];

/* What many programs give to atexit. */
static void at_end(void)
{
	int flag;
	MPI_Finalized(&flag);
	if (!flag)
		MPI_Finalize();
}

static void exchange(int salt)
{
	int to = (rank + 1) % size, from = (rank + size - 1) % size;
	for (long length = 1; length <= LONG; length = length < 1000 ? 1000 : length < LONG ? LONG : LONG + 1) {
		fill(out, length, rank + salt);
		CHECK(MPI_Sendrecv(out, length, MPI_BYTE, to, salt, in, length, MPI_BYTE, from, salt, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		CHECK(holds(in, length, from + salt));
	}
	CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
}

/* What a child does, by its number; its status. */
static int child(int nth)
{
	int flag = 0, value = 0;
	switch (nth % 5) {
	case 0:
		exit(0);
	case 1:
		exit(MPI_Finalize());
	case 2:
		exit(MPI_Initialized(&flag) || !flag || MPI_Finalized(&flag) || !flag);
	case 3:
		/* It takes nothing and sends nothing, and ends alone. */
		MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		exit(0);
	default:
		MPI_Init(NULL, NULL);
		exit(0);
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	atexit(at_end);
	exchange(0);
	for (int round = 1; round <= ROUNDS; round++) {
		int status;
		MPI_Request request;
		/* A message is under way meanwhile. */
		CHECK(MPI_Irecv(in, 1, MPI_BYTE, (rank + size - 1) % size, 1000, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
		fflush(NULL);
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			CHECK(freopen("/dev/null", "w", stderr) != NULL);
			return child(round);
		}
		out[0] = round;
		CHECK(MPI_Send(out, 1, MPI_BYTE, (rank + 1) % size, 1000, MPI_COMM_WORLD) == MPI_SUCCESS);
		if (round % 2)
			CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && in[0] == round);
		exchange(round);
		if (round % 2 == 0)
			CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0) == (round % 5 < 3));
	}
	return end("forks");
}
