/* The connection from the first rank to the last fails while the last is not in MPI for 5 s. HOW in
 * the environment: it is stopped, so that nothing of it answers; else it computes, and its echo
 * answers for it. */
#include "check.h"
#include <ferriband_mpi.h>
#include <signal.h>
#include <unistd.h>

enum { AWAY = 5 };

static void exchange(long said)
{
	long heard = -1;
	int other = size - 1 - rank;
	if (rank != 0 && other != 0)
		return;
	CHECK(MPI_Sendrecv(&said, 1, MPI_LONG, other, 1, &heard, 1, MPI_LONG, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(heard == said);
}

/* Stops this process, which another one lets go on. */
static void stop(void)
{
	pid_t me = getpid();
	if (fork() == 0) {
		sleep(AWAY);
		kill(me, SIGCONT);
		_exit(0);
	}
	raise(SIGSTOP);
}

int main(int argc, char **argv)
{
	const char *how = getenv("HOW");
	begin(&argc, &argv);
	exchange(1);
	if (rank == 0)
		CHECK(ferriband_mpi_switch_setting("queue-pairs", "error") == 0);
	else if (rank == size - 1 && how != NULL && strcmp(how, "stops") == 0)
		stop();
	else if (rank == size - 1)
		sleep(AWAY);
	exchange(2);
	return end("computes");
}
