/* What MPI_Isend and MPI_Irecv of 8 bytes take between two ranks of a host, in windows as of a
 * stream, and what it takes to receive what has come: by MPI_Waitall, and by MPI_Recv. Callgrind
 * counts what happens within `measured_*`; each window is a dump of its own, whose trigger is the
 * name of what was measured.
 *
 * mpi WINDOWS */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define WINDOW 32

static char memory[WINDOW][8];
static MPI_Request requests[WINDOW];

static __attribute__((noinline)) void measured_send(int i)
{
    MPI_Isend(memory[i], 8, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &requests[i]);
}

static __attribute__((noinline)) void measured_receive(int i)
{
    MPI_Irecv(memory[i], 8, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &requests[i]);
}

static __attribute__((noinline)) void measured_wait(void)
{
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

static __attribute__((noinline)) void measured_recv(int i)
{
    MPI_Recv(memory[i], 8, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Until the other rank has sent, for certain. */
static void others_turn(void)
{
    usleep(20000);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int window = atoi(argv[1]); window > 0; window--) {
        /* the receives are there before the sends */
        CALLGRIND_ZERO_STATS;
        for (int i = 0; rank == 1 && i < WINDOW; i++)
            measured_receive(i);
        if (rank == 1)
            CALLGRIND_DUMP_STATS_AT("MPI_Irecv");
        MPI_Barrier(MPI_COMM_WORLD);
        CALLGRIND_ZERO_STATS;
        for (int i = 0; rank == 0 && i < WINDOW; i++)
            measured_send(i);
        if (rank == 0)
            CALLGRIND_DUMP_STATS_AT("MPI_Isend");
        if (rank == 0)
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 1) {
            others_turn();
            CALLGRIND_ZERO_STATS;
            measured_wait();
            CALLGRIND_DUMP_STATS_AT("MPI_Waitall of receives");
        }
        for (int i = 0; rank == 0 && i < WINDOW; i++)
            MPI_Send(memory[i], 8, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
        if (rank == 1) {
            others_turn();
            CALLGRIND_ZERO_STATS;
            for (int i = 0; i < WINDOW; i++)
                measured_recv(i);
            CALLGRIND_DUMP_STATS_AT("MPI_Recv");
        }
    }
    MPI_Finalize();
    return 0;
}
