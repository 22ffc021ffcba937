/*
 * What `ferriband repro 003` and `ferriband-dev bench --heal` measure of messages: what
 * acknowledgements and heals cost while nothing fails, and how long it takes when something does.
 * turns.h comes before it. Compiled by our mpicc.
 *
 * usage: messages sizes SEGMENTS LONGEST
 *        messages streams SEGMENTS
 *        messages side WITH FILE SEGMENTS
 *        messages breaks COUNT
 *        messages steady SECONDS FILE
 *        messages many FILE
 *        messages killed FILE
 */

/* Ranks that take part in something outside of MPI; messages of a long stream's window. */
enum { MOST_RANKS = 256, LONG_WINDOW = 8 };

/* What processes share outside of MPI, in a file that is zeros at first. */
struct meeting {
	/* of `side`: how many steps are over, and what the present one needs */
	_Atomic int step, times;
	double figures[2][MOST_SEGMENTS];
	/* of `meet`: who is there, and how often all were */
	_Atomic int here, met;
	/* of each rank: its process, and when something began and ended for it */
	int process[MOST_RANKS];
	long begun[MOST_RANKS], ended[MOST_RANKS];
};

static struct meeting *meeting;

/* Nanoseconds of the clock that all processes of this machine share. */
static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void fail(const char *why)
{
	fprintf(stderr, "rank %d: %s\n", rank, why);
	MPI_Abort(MPI_COMM_WORLD, 7);
}

static void open_meeting(const char *path)
{
	int file = open(path, O_RDWR);
	void *place = MAP_FAILED;

	if (file >= 0 && ftruncate(file, sizeof *meeting) == 0)
		place = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (place == MAP_FAILED || size > MOST_RANKS)
		fail("no memory to meet in");
	close(file);
	meeting = place;
	meeting->process[rank] = getpid();
}

/* Sleeps until a word is another one; or for no reason. */
static void sleep_at(_Atomic int *word, int value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void wake_at(_Atomic int *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

/* All `count` are here. No message goes for it. In MPI meanwhile, if asked: what this rank has sent
 * may have to be sent again for others to come. */
static void meet(int count, int in_mpi)
{
	int before = atomic_load(&meeting->met), flag;

	if (atomic_fetch_add(&meeting->here, 1) + 1 == count) {
		atomic_store(&meeting->here, 0);
		atomic_store(&meeting->met, before + 1);
		wake_at(&meeting->met);
	}
	while (atomic_load(&meeting->met) == before)
		if (in_mpi) {
			MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
			usleep(1000);
		} else {
			sleep_at(&meeting->met, before);
		}
}

/* A window both ways. */
static void both_ways(int length, int times)
{
	MPI_Request requests[2 * WINDOW];
	for (int i = 0; i < times; i++) {
		for (int j = 0; j < window; j++)
			MPI_Irecv(in[j], length, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &requests[j]);
		for (int j = 0; j < window; j++)
			MPI_Isend(out[j], length, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &requests[window + j]);
		MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
	}
}

/* A message that is sent alone, by MPI_Send, then an answer. */
static void alone(int length, int times)
{
	for (int i = 0; i < times; i++) {
		if (rank == 0)
			MPI_Send(out[0], length, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
		else
			MPI_Recv(in[0], length, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		ping_pong(4, 1);
	}
}

static int window_of(int length)
{
	return length >= 65536 ? LONG_WINDOW : WINDOW;
}

/* Figure 4: seconds of a message one way, and of a message of a window one way and both ways. */
static void sizes(int longest)
{
	for (int length = 1; length <= longest; length *= 4) {
		window = window_of(length);
		compare(acks, "latency", ping_pong, length, 0.5);
		compare(acks, "message", stream, length, 1.0 / window);
		compare(acks, "both", both_ways, length, 0.5 / window);
	}
}

/* Long messages, and one of 64 KiB alone beside one of 8 B. */
static void streams(void)
{
	for (int length = 65536; length <= LONGEST; length *= 16) {
		window = window_of(length);
		compare(acks, "message", stream, length, 1.0 / window);
	}
	compare(acks, "alone", alone, 65536, 1);
	compare(acks, "latency", ping_pong, 8, 0.5);
}

/* Waits for the turn of this side's step. Both ranks of a side know which steps are its. */
static void await_step(int step)
{
	int seen;
	while ((seen = atomic_load(&meeting->step)) < step)
		sleep_at(&meeting->step, seen);
}

/* A step is over: rank 0 measures, and its last call was one that received. */
static void end_step(int step)
{
	if (rank != 0)
		return;
	atomic_store(&meeting->step, step + 1);
	wake_at(&meeting->step);
}

/* As `compare`, with two jobs of other settings that take turns: `with` says which side this one
 * is. */
static int compare_jobs(int with, int step, const char *name, void (*work)(int, int), int length, double share)
{
	for (int i = 0; i < window; i++) {
		memset(out[i], i + 1, length);
		memset(in[i], 0, length);
	}
	/* The side without says how often both repeat; the other one begins as it did. */
	for (int side = 0; side < 2; side++, step++)
		if (side == with) {
			await_step(step);
			int times = repetitions(work, length);
			if (side == 0 && rank == 0)
				atomic_store(&meeting->times, times);
			end_step(step);
		}
	for (int i = 0; i < segments; i++)
		for (int j = 0; j < 2; j++, step++)
			if ((i + j) % 2 == with) {
				await_step(step);
				double taken = segment(work, length, atomic_load(&meeting->times)) * share;
				if (rank == 0)
					meeting->figures[with][i] = taken;
				end_step(step);
			}
	if (with) {
		await_step(step);
		memcpy(sides, meeting->figures, sizeof sides);
		tell(name, length);
		end_step(step);
	}
	return step + 1;
}

/* One of two jobs. That with prints. */
static void side(int with, const char *path)
{
	static const int lengths[] = { 8, 1024, 4096 };
	int step = 0;

	open_meeting(path);
	for (int i = 0; i < 3; i++)
		step = compare_jobs(with, step, "latency", ping_pong, lengths[i], 0.5);
	for (int i = 0; i < 3; i++)
		step = compare_jobs(with, step, "message", stream, lengths[i], 1.0 / WINDOW);
	for (int length = 65536; length <= LONGEST; length *= 16) {
		window = window_of(length);
		step = compare_jobs(with, step, "message", stream, length, 1.0 / window);
	}
}

/* What one rank knows of the newest heal, in seconds. */
static void last_heal(double parts[4])
{
	struct ferriband_mpi_heal heals[32];
	int known = ferriband_mpi_get_heals(heals, 32);

	if (known <= 0)
		fail("no connection was made anew");
	struct ferriband_mpi_heal *last = &heals[known - 1];
	parts[0] = last->detect_ns / 1e9;
	parts[1] = last->fence_ns / 1e9;
	parts[2] = last->reconnect_ns / 1e9;
	parts[3] = last->replay_ns / 1e9;
}

/* Rank 0 says how long a message took that rank 1 has, from `begun` on. */
static void say_first(const char *name, int index, long begun)
{
	long told[2] = { begun, 0 };

	if (rank == 0) {
		MPI_Send(told, 2, MPI_LONG, 1, 10, MPI_COMM_WORLD);
		MPI_Recv(told, 2, MPI_LONG, 1, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		say(name, index, (told[1] - told[0]) / 1e9);
	} else {
		MPI_Recv(told, 2, MPI_LONG, 0, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		told[1] = now();
		MPI_Send(told, 2, MPI_LONG, 0, 11, MPI_COMM_WORLD);
	}
}

/* The first connection, then as many that are made anew: the queue pair of rank 0 fails, which
 * sends a message at once; rank 1 is in MPI. The parts are the slower rank's. */
static void breaks(int count)
{
	static const char *const names[] = { "detect", "fence", "reconnect", "replay" };
	double parts[2][4];

	say_first("connection", 0, now());
	for (int index = 0; index < count; index++) {
		ping_pong(8, 32);
		long begun = now();
		if (rank == 0)
			switch_setting("queue-pairs", "error");
		say_first("first", index, begun);
		ping_pong(8, 32);
		last_heal(parts[rank]);
		MPI_Sendrecv(parts[rank], 4, MPI_DOUBLE, 1 - rank, 12, parts[1 - rank], 4, MPI_DOUBLE, 1 - rank, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int part = 0; part < 4; part++) {
			double here = parts[0][part], there = parts[1][part];
			say(names[part], index, here > there ? here : there);
		}
	}
}

/* Messages to and fro for so long. Rank 1 writes down when each came, in nanoseconds; the file is
 * there from the first one on. */
static void steady(double seconds, const char *path)
{
	long end = now() + (long)(seconds * 1e9), at, goes_on = 1;
	FILE *to = rank == 1 ? fopen(path, "wb") : NULL;

	if (rank == 1 && to == NULL)
		fail("no file");
	while (goes_on) {
		if (rank == 0) {
			usleep(200);
			goes_on = now() < end;
			MPI_Send(&goes_on, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(&at, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(&goes_on, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			at = now();
			if (fwrite(&at, sizeof at, 1, to) != 1)
				fail("the file is full");
			MPI_Send(&at, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD);
		}
	}
	if (to != NULL && fclose(to) != 0)
		fail("the file is full");
}

/* Each rank and each of the other host, which ranks are dealt to in turn: a message both ways.
 * Seconds from the first one's beginning to the last one's end, at all. */
static void all_pairs(const char *name, int breaks)
{
	static long words[MOST_RANKS];
	MPI_Request requests[2 * MOST_RANKS];
	int used = 0;

	meet(size, 0);
	meeting->begun[rank] = now();
	if (breaks && rank % 2 == 0)
		switch_setting("queue-pairs", "error");
	for (int other = 1 - rank % 2; other < size; other += 2)
		MPI_Irecv(&words[other], 1, MPI_LONG, other, 1, MPI_COMM_WORLD, &requests[used++]);
	for (int other = 1 - rank % 2; other < size; other += 2)
		MPI_Isend(&meeting->begun[rank], 1, MPI_LONG, other, 1, MPI_COMM_WORLD, &requests[used++]);
	MPI_Waitall(used, requests, MPI_STATUSES_IGNORE);
	meeting->ended[rank] = now();
	meet(size, 1);
	long begun = meeting->begun[0], ended = 0;
	for (int one = 0; one < size; one++) {
		begun = meeting->begun[one] < begun ? meeting->begun[one] : begun;
		ended = meeting->ended[one] > ended ? meeting->ended[one] : ended;
	}
	say(name, size, (ended - begun) / 1e9);
}

static void many(const char *path)
{
	struct ferriband_mpi_stats stats;

	open_meeting(path);
	all_pairs("set-up", 0);
	/* messages after which each connection counts as one that carries */
	all_pairs("again", 0);
	all_pairs("broken", 1);
	if (ferriband_mpi_get_stats(&stats) != 0 || stats.heals + stats.healing == 0)
		fail("no connection was made anew");
}

/* The last rank is killed while all others wait for a message of it: until each knows. */
static void killed(const char *path)
{
	int victim = size - 1;
	long word = 0, last = 0;
	MPI_Request request;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	open_meeting(path);
	for (int other = 0; other < victim; other++)
		if (rank == victim)
			MPI_Send(&word, 1, MPI_LONG, other, 1, MPI_COMM_WORLD);
		else if (rank == other)
			MPI_Recv(&word, 1, MPI_LONG, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	meet(size, 0);
	if (rank == victim)
		for (;;)
			pause();
	MPI_Irecv(&word, 1, MPI_LONG, victim, 1, MPI_COMM_WORLD, &request);
	meet(size - 1, 0);
	if (rank == 0) {
		/* the others are on their way into the call below */
		usleep(20000);
		meeting->begun[0] = now();
		kill(meeting->process[victim], SIGKILL);
	}
	if (MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS)
		fail("the dead have sent something");
	meeting->ended[rank] = now();
	meet(size - 1, 0);
	for (int one = 0; one < victim; one++)
		last = meeting->ended[one] > last ? meeting->ended[one] : last;
	say("noticed", size, (last - meeting->begun[0]) / 1e9);
}

static int number(const char *word)
{
	int value = word != NULL ? atoi(word) : 0;
	if (value < 1)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return value;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "", *second = argc > 2 ? argv[2] : NULL, *third = argc > 3 ? argv[3] : NULL;

	begin(&argc, &argv);
	if (strcmp(what, "sizes") == 0 && size == 2) {
		segments = number(second);
		sizes(number(third));
	} else if (strcmp(what, "streams") == 0 && size == 2) {
		segments = number(second);
		streams();
	} else if (strcmp(what, "side") == 0 && size == 2 && argc > 4) {
		segments = number(argv[4]);
		side(second[0] == '1', third);
	} else if (strcmp(what, "breaks") == 0 && size == 2)
		breaks(number(second));
	else if (strcmp(what, "steady") == 0 && size == 2 && third != NULL)
		steady(atof(second), third);
	else if (strcmp(what, "many") == 0)
		many(second);
	else if (strcmp(what, "killed") == 0 && size > 2)
		killed(second);
	else
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Finalize();
	return 0;
}
