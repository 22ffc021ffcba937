/* The two drivers of "Experiences with Prototype InfiniBand Hardware" (SAND2001-3387). The second
 * one: put and get between buffers with tags, one-shot notifications, acknowledgements
 * (ferriband_putget_...). The first one: matching reads and writes (ferriband_channels_...).
 *
 * Link with -lferriband_putget. Functions may be called by several threads at a time, but for
 * ferriband_putget_close and ferriband_channels_close, during which and after which nothing else
 * may be called. Functions that
 * return int return 0, or an error number of errno.h; beside those that are named, ENOMEM and
 * EIO. Pointers to results must not be NULL.
 *
 * In a forked child whatever its parent has opened is EIO, and closing it does nothing. The child
 * may open its own. */
#ifndef FERRIBAND_PUTGET_H
#define FERRIBAND_PUTGET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process that puts, gets, and lets others do so. */
typedef struct ferriband_putget ferriband_putget_t;

/* Another such process. The number is good for as long as this one is open, also when the
 * connection was lost and made again. */
typedef uint32_t ferriband_putget_peer_t;

/* What has become of an operation. */
enum ferriband_putget_status {
    FERRIBAND_PUTGET_OK = 0,
    FERRIBAND_PUTGET_NO_BUFFER = 1,     /* no buffer of the target has the tag */
    FERRIBAND_PUTGET_TOO_LONG = 2,      /* it is longer than the target's buffer */
    FERRIBAND_PUTGET_FAULT = 3,         /* memory cannot be reached */
    FERRIBAND_PUTGET_UNDELIVERABLE = 4, /* the connection was lost */
    FERRIBAND_PUTGET_REFUSED = 5        /* another reason */
};

/* A notification or an acknowledgement. It lies in a registered buffer, which may hold many. The
 * program sets state to 0 before it hands the structure over, and reads the other members after
 * it has found state to be 1 (with acquire semantics, __atomic_load_n). Then the structure may be
 * used again. */
typedef struct ferriband_putget_notification {
    uint32_t state;  /* 0: waiting; 1: it has fired */
    uint32_t status; /* enum ferriband_putget_status */
    uint64_t length; /* bytes that were moved */
} ferriband_putget_notification_t;

/* Which operations on a buffer a notification is about. */
enum ferriband_putget_direction {
    FERRIBAND_PUTGET_INCOMING = 1, /* new data have arrived: by a put of a peer or an own get */
    FERRIBAND_PUTGET_OUTGOING = 2  /* data have left: by an own put or a get of a peer */
};

/* Any tag that no buffer has. */
#define FERRIBAND_PUTGET_ANY UINT32_MAX

/* Listens at an address of an adapter, in text ("10.0.0.1", "fd00::1"); port 0 chooses one.
 * EADDRINUSE, EADDRNOTAVAIL if the address belongs to no adapter, ENODEV without any, EINVAL. */
int ferriband_putget_open(const char *address, uint16_t port, ferriband_putget_t **putget);

/* Waits a second at most until what was put has left, then ends all connections, and
 * registrations of all buffers. Notifications that have not fired tell
 * FERRIBAND_PUTGET_UNDELIVERABLE if an operation that would fire them was under way. */
void ferriband_putget_close(ferriband_putget_t *putget);

/* Where the process listens. The text has up to 46 bytes with its end. ERANGE. */
int ferriband_putget_address(ferriband_putget_t *putget, char *text, size_t length, uint16_t *port);

/* Registers memory and gives it a tag: the one in *tag, or any if that is FERRIBAND_PUTGET_ANY.
 * From now on peers that are connected may put to it and get from it. EEXIST if a buffer has the
 * tag, EFAULT if there is no such memory, ENOSPC. */
int ferriband_putget_register(ferriband_putget_t *putget, void *memory, size_t length, uint32_t *tag);

/* Takes a tag away, and a notification that is bound to the buffer with it. EBUSY while an
 * operation on the buffer is under way, or a notification that lies in it is bound to any buffer
 * and has not fired (ferriband_putget_cancel unbinds it); ENOENT. */
int ferriband_putget_unregister(ferriband_putget_t *putget, uint32_t tag);

/* Connects to the process that listens at an address; waits at most so many milliseconds, for
 * ever if the number is negative. ECONNREFUSED if nobody listens there, or if it cannot be
 * reached; ETIMEDOUT; EPROTO if it speaks another version. A process cannot connect to itself. */
int ferriband_putget_connect(ferriband_putget_t *putget, const char *address, uint16_t port, int milliseconds,
                             ferriband_putget_peer_t *peer);

/* Waits for the next process that has connected to this one. ETIMEDOUT. */
int ferriband_putget_accept(ferriband_putget_t *putget, int milliseconds, ferriband_putget_peer_t *peer);

/* Ends a connection. What is under way is undeliverable; puts without acknowledgement may be
 * lost. ENOTCONN. */
int ferriband_putget_disconnect(ferriband_putget_t *putget, ferriband_putget_peer_t peer);

/* Puts the first bytes of a local buffer into the peer's buffer with the remote tag. Never
 * blocks: EAGAIN while too much is under way to this peer. If acknowledgement is not NULL it
 * fires when the data lie in the peer's buffer, or tells why they do not. ENOENT, EMSGSIZE if the
 * local buffer is shorter, ENOTCONN, EINVAL if the acknowledgement lies in no registered buffer. */
int ferriband_putget_put(ferriband_putget_t *putget, ferriband_putget_peer_t peer, uint32_t local_tag,
                         uint32_t remote_tag, size_t length, ferriband_putget_notification_t *acknowledgement);

/* Gets the first bytes of the peer's buffer into a local one. Else as ferriband_putget_put; the
 * acknowledgement fires when the data lie in the local buffer. */
int ferriband_putget_get(ferriband_putget_t *putget, ferriband_putget_peer_t peer, uint32_t local_tag,
                         uint32_t remote_tag, size_t length, ferriband_putget_notification_t *acknowledgement);

/* Binds a notification to a buffer. The next operation of this direction that ends on it, begun
 * by either side, fires and unbinds it. A put of one's own does not fire an incoming
 * notification. EEXIST if one is bound, for either direction; ENOENT; EINVAL if the notification
 * lies in no registered buffer. */
int ferriband_putget_notify(ferriband_putget_t *putget, uint32_t tag, enum ferriband_putget_direction direction,
                            ferriband_putget_notification_t *notification);

/* Unbinds the notification of a buffer, which does not fire then. ENOENT if none is bound. */
int ferriband_putget_cancel(ferriband_putget_t *putget, uint32_t tag);

/* Up to how many bytes operations go in protocol messages; longer ones go by RDMA. No more than
 * fit into a message (ferriband_putget_crossover tells what is in force). */
void ferriband_putget_set_crossover(ferriband_putget_t *putget, size_t put_bytes, size_t get_bytes);
void ferriband_putget_crossover(ferriband_putget_t *putget, size_t *put_bytes, size_t *get_bytes);

/* A process that reads and writes. What follows uses SENDs and receives alone, of one queue pair of
 * the reliable service for each channel. */
typedef struct ferriband_channels ferriband_channels_t;

/* A connection, for as long as the process is open. */
typedef uint32_t ferriband_channel_t;

/* A read or a write that was begun, until its end was told. */
typedef uint64_t ferriband_transfer_t;

/* Listens, as ferriband_putget_open. */
int ferriband_channels_open(const char *address, uint16_t port, ferriband_channels_t **channels);

/* Ends all channels and unpins all memory. A write that has ended has arrived. */
void ferriband_channels_close(ferriband_channels_t *channels);

/* Where the process listens, as ferriband_putget_address. */
int ferriband_channels_address(ferriband_channels_t *channels, char *text, size_t length, uint16_t *port);

/* Pins memory: reads and writes take parts of it. EEXIST if some of it is pinned, EFAULT if there
 * is no such memory, EINVAL if it has no bytes. */
int ferriband_channels_pin(ferriband_channels_t *channels, void *memory, size_t length);

/* Unpins what was pinned at this address. EBUSY while a read or a write of it is under way; ENOENT.
 */
int ferriband_channels_unpin(ferriband_channels_t *channels, void *memory);

/* Connects to the process that listens at an address; waits at most so many milliseconds, for ever
 * if the number is negative. The other process answers when it is in one of these functions that
 * waits, such as ferriband_channels_accept. Two processes may have any number of channels.
 * ECONNREFUSED if nobody listens there, or if it cannot be reached; ETIMEDOUT; EPROTO if it speaks
 * something else. */
int ferriband_channels_connect(ferriband_channels_t *channels, const char *address, uint16_t port,
                               int milliseconds, ferriband_channel_t *channel);

/* Waits for the next channel that a process has connected to this one. ETIMEDOUT. */
int ferriband_channels_accept(ferriband_channels_t *channels, int milliseconds, ferriband_channel_t *channel);

/* Ends a channel. Reads and writes that are under way end with ECONNRESET, those of the peer, too.
 * ENOTCONN. */
int ferriband_channels_disconnect(ferriband_channels_t *channels, ferriband_channel_t channel);

/* Writes a message, and waits until a read of the peer has taken it, however long. The peer's next
 * read takes the next message, whatever either means: nothing is matched. A message longer than its
 * read is an error of both, EMSGSIZE, and ends the channel; a shorter one is none. EFAULT if the
 * data are not pinned, ENOTCONN without a channel, ECONNRESET if it ends meanwhile. */
int ferriband_channels_write(ferriband_channels_t *channels, ferriband_channel_t channel, const void *data,
                             size_t length);

/* Waits for a message of at most so many bytes; tells how many came unless received is NULL. Else
 * as ferriband_channels_write. */
int ferriband_channels_read(ferriband_channels_t *channels, ferriband_channel_t channel, void *data, size_t length,
                            size_t *received);

/* Begin a write or a read, and do not wait for its end, which has to be asked for by
 * ferriband_channels_test or ferriband_channels_wait. Meanwhile the program leaves the data alone.
 * EAGAIN while too many are under way (128 requests each way and channel); EFAULT, ENOTCONN. */
int ferriband_channels_start_write(ferriband_channels_t *channels, ferriband_channel_t channel, const void *data,
                                   size_t length, ferriband_transfer_t *transfer);
int ferriband_channels_start_read(ferriband_channels_t *channels, ferriband_channel_t channel, void *data,
                                  size_t length, ferriband_transfer_t *transfer);

/* Whether a read or a write has ended, and with how many bytes unless length is NULL: EINPROGRESS
 * if it has not; EMSGSIZE or ECONNRESET if it came to nothing. Its end is told once; then, or if
 * there is none of this number, EINVAL. */
int ferriband_channels_test(ferriband_channels_t *channels, ferriband_transfer_t transfer, size_t *length);

/* As ferriband_channels_test, and waits at most so many milliseconds, for ever if the number is
 * negative. The thread sleeps. ETIMEDOUT, after which the transfer is under way as before. */
int ferriband_channels_wait(ferriband_channels_t *channels, ferriband_transfer_t transfer, int milliseconds,
                            size_t *length);

/* Up to how many bytes a request of the adapter takes, 1 GiB at first: longer messages take
 * several. A power of two up to 1 GiB, or EINVAL. Of channels to come; both sides of a channel take
 * the smaller number. */
int ferriband_channels_set_request_bytes(ferriband_channels_t *channels, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
