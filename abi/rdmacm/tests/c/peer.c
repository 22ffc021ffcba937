/*
 * The protocol of stream sockets, spoken by hand over an endpoint: what a socket says, what it takes, and that a peer which
 * breaks the rules ends its own connection and nothing else.
 */
#include "rs.h"

#define DATA 0u
#define CREDITS 4u
#define MAPPED 6u
#define CONTROL 7u
#define WORD(operation, data) ((operation) << 29 | (data))
#define RECEIVES 16
#define RING 8192

struct entry {
	uint64_t address;
	uint32_t key, length;
};

struct offer {
	uint8_t version, flags;
	uint16_t credits;
	uint8_t reserved[3], mappings;
	uint64_t list;
	uint32_t list_key, list_length;
	uint64_t buffer;
	uint32_t buffer_key, buffer_length;
} __attribute__((packed));

struct peer {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct {
		struct entry list[2];
		struct {
			uint64_t offset;
			struct entry entry;
		} table[2];
		char ring[RING], out[70000];
	} *memory;
	/* What the socket offered. */
	struct offer offer;
	uint64_t next;
};

static void post_receive(struct peer *peer)
{
	EQ(rdma_post_recvv(peer->id, NULL, NULL, 0), 0);
}

/* Connects by hand; what rdma_connect says. */
static int try_to_connect(struct peer *peer, struct sockaddr_in to, uint8_t version, uint8_t length)
{
	struct rdma_conn_param param = { .private_data_len = length, .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 64, .max_recv_wr = RECEIVES, .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct offer offer = { .version = version, .flags = 2, .credits = htons(RECEIVES), .mappings = 2 };

	EQ(rdma_create_id(NULL, &peer->id, NULL, RDMA_PS_TCP), 0);
	EQ(rdma_resolve_addr(peer->id, NULL, (struct sockaddr *)&to, 2000), 0);
	EQ(rdma_resolve_route(peer->id, 2000), 0);
	EQ(rdma_create_qp(peer->id, NULL, &attr), 0);
	peer->memory = aligned_alloc(4096, (sizeof(*peer->memory) + 4095) & ~4095ul);
	CHECK(peer->memory);
	memset(peer->memory, 0, sizeof(*peer->memory));
	peer->mr = rdma_reg_write(peer->id, peer->memory, sizeof(*peer->memory));
	CHECK(peer->mr);
	for (int i = 0; i < RECEIVES; i++)
		post_receive(peer);
	offer.list = htobe64((uintptr_t)peer->memory->list);
	offer.list_key = offer.buffer_key = htonl(peer->mr->rkey);
	offer.list_length = htonl(2);
	offer.buffer = htobe64((uintptr_t)peer->memory->ring);
	offer.buffer_length = htonl(RING / 2);
	param.private_data = &offer;
	return rdma_connect(peer->id, &param);
}

static struct peer connect_by_hand(int listener, int *far)
{
	struct peer peer;

	EQ(try_to_connect(&peer, name_of(listener), 1, sizeof(struct offer)), 0);
	CHECK(peer.id->event->param.conn.private_data_len >= sizeof(struct offer));
	memcpy(&peer.offer, peer.id->event->param.conn.private_data, sizeof(struct offer));
	peer.next = be64toh(peer.offer.buffer);
	*far = raccept(listener, NULL, NULL);
	CHECK(*far >= 0);
	return peer;
}

static void drop(struct peer *peer)
{
	rdma_disconnect(peer->id);
	rdma_dereg_mr(peer->mr);
	rdma_destroy_qp(peer->id);
	EQ(rdma_destroy_id(peer->id), 0);
	free(peer->memory);
}

/* The next word from the socket. */
static uint32_t hear(struct peer *peer)
{
	struct ibv_wc wc;

	EQ(rdma_get_recv_comp(peer->id, &wc), 1);
	EQ(wc.status, IBV_WC_SUCCESS);
	EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	post_receive(peer);
	return ntohl(wc.imm_data);
}

/* Writes bytes to the socket's memory, with a word; the completion's status. */
static int say(struct peer *peer, uint32_t word, uint64_t address, uint32_t key, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)peer->memory->out, length, peer->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = length != 0, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .imm_data = htonl(word), .wr.rdma = { address, key } }, *bad;
	struct ibv_wc wc;

	EQ(ibv_post_send(peer->id->qp, &wr, &bad), 0);
	EQ(rdma_get_send_comp(peer->id, &wc), 1);
	return wc.status;
}

static void write_data(struct peer *peer, const char *text)
{
	uint32_t length = strlen(text);

	memcpy(peer->memory->out, text, length);
	EQ(say(peer, WORD(DATA, length), peer->next, ntohl(peer->offer.buffer_key), length), IBV_WC_SUCCESS);
	peer->next += length;
}

/* What goes back and forth when both sides keep the rules. */
static void rules(int listener)
{
	int far;
	struct peer peer = connect_by_hand(listener, &far);
	char text[16];

	EQ(peer.offer.version, 1);
	EQ(peer.offer.flags, 2);
	EQ(ntohs(peer.offer.credits), 384);
	EQ(peer.offer.mappings, 0);
	EQ(ntohl(peer.offer.list_length), 2);
	EQ(ntohl(peer.offer.buffer_length), 1 << 16);
	/* The second half of the ring is granted at once, in the list's second entry. */
	EQ(hear(&peer), WORD(CREDITS, 384));
	EQ(peer.memory->list[0].length, 0);
	EQ(peer.memory->list[1].address, be64toh(peer.offer.buffer) + (1 << 16));
	EQ(peer.memory->list[1].key, ntohl(peer.offer.buffer_key));
	EQ(peer.memory->list[1].length, 1 << 16);

	EQ(rsend(far, "hello", 5, 0), 5);
	EQ(hear(&peer), WORD(DATA, 5));
	EQ(memcmp(peer.memory->ring, "hello", 5), 0);
	EQ(rsend(far, "you", 3, 0), 3);
	EQ(hear(&peer), WORD(DATA, 3));
	EQ(memcmp(peer.memory->ring, "helloyou", 8), 0);
	write_data(&peer, "abc");
	write_data(&peer, "defg");
	EQ(rrecv(far, text, 7, MSG_WAITALL), 7);
	EQ(memcmp(text, "abcdefg", 7), 0);

	/* A mapped buffer's entry goes before the bytes. */
	static char buffer[100];
	EQ(riomap(far, buffer, sizeof(buffer), PROT_WRITE, 0, 77), 77);
	EQ(rsend(far, "!", 1, 0), 1);
	EQ(hear(&peer), WORD(MAPPED, 0));
	EQ(peer.memory->table[0].offset, 77);
	EQ(peer.memory->table[0].entry.address, (uintptr_t)buffer);
	EQ(peer.memory->table[0].entry.length, sizeof(buffer));
	EQ(hear(&peer), WORD(DATA, 1));

	/* The end of one direction, then of both. */
	EQ(rshutdown(far, SHUT_WR), 0);
	EQ(hear(&peer), WORD(CONTROL, 2));
	write_data(&peer, "late");
	EQ(rrecv(far, text, 4, MSG_WAITALL), 4);
	EQ(say(&peer, WORD(CONTROL, 0), 0, 0, 0), IBV_WC_SUCCESS);
	EQ(rrecv(far, text, 4, 0), 0);
	EQ(rclose(far), 0);
	drop(&peer);
}

/* All credits used: nothing more goes until there are new ones. */
static void credits(int listener)
{
	int far;
	struct peer peer = connect_by_hand(listener, &far);

	EQ(hear(&peer), WORD(CREDITS, 384));
	EQ(rfcntl(far, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < RECEIVES; i++)
		EQ(rsend(far, "x", 1, 0), 1);
	REFUSED(rsend(far, "x", 1, 0), EAGAIN);
	for (int i = 0; i < RECEIVES; i++)
		EQ(hear(&peer), WORD(DATA, 1));
	REFUSED(rsend(far, "x", 1, 0), EAGAIN);
	EQ(say(&peer, WORD(CREDITS, RECEIVES + 1), 0, 0, 0), IBV_WC_SUCCESS);
	EQ(ready(far, POLLOUT, PATIENCE_MS), POLLOUT);
	EQ(rsend(far, "x", 1, 0), 1);
	EQ(hear(&peer), WORD(DATA, 1));
	REFUSED(rsend(far, "x", 1, 0), EAGAIN);
	EQ(rsetsockopt(far, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger)), 0);
	EQ(rclose(far), 0);
	drop(&peer);
}

/* A word that breaks the rules is an error for whoever reads, once, and then the end. */
static void broken(int listener, uint32_t word)
{
	int far;
	struct peer peer = connect_by_hand(listener, &far);
	char text[16];

	write_data(&peer, "good");
	say(&peer, word, 0, 0, 0);
	EQ(rrecv(far, text, 4, MSG_WAITALL), 4);
	REFUSED(rrecv(far, text, 4, 0), EPROTO);
	EQ(rrecv(far, text, 4, 0), 0);
	CHECK(ready(far, POLLIN, 0) & POLLHUP);
	REFUSED(rsend(far, text, 4, MSG_NOSIGNAL), ECONNRESET);
	EQ(rclose(far), 0);
	drop(&peer);
}

/* Entries that name no memory: the socket's own connection breaks, when it uses them. */
static void false_target(int listener)
{
	int far;
	struct peer peer = connect_by_hand(listener, &far);
	static char bulk[RING];
	ssize_t sent;

	EQ(hear(&peer), WORD(CREDITS, 384));
	memcpy(peer.memory->out, &(struct entry){ 1, 2, 0xffffffff }, sizeof(struct entry));
	EQ(say(&peer, WORD(CREDITS, 1000), be64toh(peer.offer.list) + sizeof(struct entry),
	       ntohl(peer.offer.list_key), sizeof(struct entry)), IBV_WC_SUCCESS);
	while ((sent = rsend(far, bulk, sizeof(bulk), MSG_NOSIGNAL)) > 0)
		;
	CHECK(errno == EIO || errno == ECONNRESET);
	EQ(rclose(far), 0);
	drop(&peer);
}

int main(void)
{
	int listener = listening(8);
	struct ends both;
	struct peer peer;

	rules(listener);
	credits(listener);
	broken(listener, WORD(DATA, (2u << 16) + 1));
	broken(listener, WORD(DATA, 0x1fffffff));
	broken(listener, WORD(1u, 1));
	broken(listener, WORD(2u, 5));
	broken(listener, WORD(5u, 0));
	false_target(listener);
	/* Another version, and too little to be an offer. */
	EQ(try_to_connect(&peer, name_of(listener), 2, sizeof(struct offer)), -1);
	EQ(errno, ECONNREFUSED);
	drop(&peer);
	/* The rest is zeros: no version at all. */
	EQ(try_to_connect(&peer, name_of(listener), 1, 0), -1);
	EQ(errno, ECONNREFUSED);
	drop(&peer);
	/* The listening socket is as it was. */
	both = ends_through(listener);
	EQ(rsend(both.near, "x", 1, 0), 1);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	EQ(rclose(listener), 0);
	return 0;
}
