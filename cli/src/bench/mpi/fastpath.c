/*
 * What `ferriband-dev bench --mpi --fastpath` measures: what acknowledgements, idle channels and
 * the designs of the fast path cost. turns.h comes before it. Compiled by our mpicc.
 */
enum { BURST = 16 };

static void veloblock(int with)
{
	switch_setting("design", with ? "variable-bottom" : "fixed-top");
}

static const int lengths[] = { 8, 1024, 4096 };

static void latencies(void (*turn)(int))
{
	for (int i = 0; i < 3; i++)
		compare(turn, "latency", ping_pong, lengths[i], 0.5);
}

static void windows(void (*turn)(int))
{
	for (int i = 0; i < 3; i++)
		compare(turn, "message", stream, lengths[i], 1.0 / WINDOW);
}

/* Two pairs of ranks talk in turns, each on the same two cores. To the first pair all ranks behind both have sent so often that each has a channel; to the second one so
 * seldom, `before` times, that none has. All others sleep. */
static void idle(int before)
{
	char word[8] = "";
	int pair = rank / 2, times;
	double *own = sides[pair == 0];
	cpu_set_t set;

	for (int to = 0; to < 4; to++)
		for (int i = 0; i < (to < 2 ? 40 : before); i++)
			if (rank >= 4)
				MPI_Send(word, 8, MPI_BYTE, to, 3, MPI_COMM_WORLD);
			else
				for (int from = 4; rank == to && from < size; from++)
					MPI_Recv(word, 8, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank >= 4) {
		MPI_Recv(word, 8, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		return;
	}
	first = 2 * pair;
	if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 2) {
		int skip = rank % 2;
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &set) && skip-- == 0) {
				CPU_ZERO(&set);
				CPU_SET(cpu, &set);
				sched_setaffinity(0, sizeof set, &set);
				break;
			}
	}
	times = repetitions(ping_pong, 8);
	for (int i = 0; i < segments; i++) {
		/* The first ranks of both pairs hand the turn on. */
		if (rank == 2 || (rank == 0 && i > 0))
			MPI_Recv(word, 8, MPI_BYTE, 2 - rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		own[i] = segment(ping_pong, 8, times) / 2;
		if (rank == 0 || (rank == 2 && i < segments - 1))
			MPI_Send(word, 8, MPI_BYTE, 2 - rank, 6, MPI_COMM_WORLD);
	}
	if (rank == 2)
		MPI_Send(own, segments, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
	if (rank != 0)
		return;
	MPI_Recv(sides[0], segments, MPI_DOUBLE, 2, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	tell("latency", 8);
	for (int to = 4; to < size; to++)
		MPI_Send(word, 8, MPI_BYTE, to, 4, MPI_COMM_WORLD);
}

/* Each to each other, in bursts that a block holds: two thirds are up to 200 bytes, a third up to 4,096. */
static void bursts(int rounds)
{
	static unsigned number;
	MPI_Request requests[2 * BURST];
	for (int round = 0; round < rounds; round++)
		for (int shift = 1; shift < size; shift++) {
			int to = (rank + shift) % size, from = (rank + size - shift) % size;
			for (int i = 0; i < BURST; i++) {
				unsigned mixed = number++ * 2654435761u >> 12;
				int length = i % 3 == 0 ? mixed % 4096 : mixed % 200;
				MPI_Irecv(in[i], 4096, MPI_BYTE, from, 5, MPI_COMM_WORLD, &requests[i]);
				MPI_Isend(out[i], length, MPI_BYTE, to, 5, MPI_COMM_WORLD, &requests[BURST + i]);
			}
			MPI_Waitall(2 * BURST, requests, MPI_STATUSES_IGNORE);
		}
}

/* The share of messages by the fast path once all channels are there, and what memory a channel takes at both sides: block and mirror. (Staging buffers are those
 * of SENDs, whatever the design.) */
static void share(void)
{
	struct ferriband_mpi_stats before, after;
	double own[4], sum[4];
	bursts(10);
	if (ferriband_mpi_get_stats(&before) != 0)
		MPI_Abort(MPI_COMM_WORLD, 3);
	bursts(100);
	ferriband_mpi_get_stats(&after);
	own[0] = after.fast - before.fast;
	own[1] = after.messages - before.messages;
	own[2] = after.blocks + after.mirrors;
	own[3] = after.channels_in;
	MPI_Reduce(own, sum, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0 && (sum[1] == 0 || sum[3] == 0))
		MPI_Abort(MPI_COMM_WORLD, 4);
	say("share", size, sum[0] / sum[1]);
	say("channel", size, sum[2] / sum[3]);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	begin(&argc, &argv);
	if (strcmp(what, "acks") == 0 && size == 2) {
		latencies(acks);
		windows(acks);
	} else if (strcmp(what, "control") == 0 && size == 2)
		compare(acks, "latency", ping_pong, 8, 0.5);
	else if (strcmp(what, "design") == 0 && size == 2)
		latencies(veloblock);
	else if (strcmp(what, "idle") == 0 && size > 4)
		idle(4);
	else if (strcmp(what, "idle-near") == 0 && size > 4)
		idle(0);
	else if (strcmp(what, "share") == 0)
		share();
	else
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Finalize();
	return 0;
}
