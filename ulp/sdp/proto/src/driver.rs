//! What a connection's machine needs of its transport: reliable connected queue pairs.
//!
//! Owns: the trait, and the order in which works are handed over. Must not know: verbs.

use crate::connection::{Connection, Pair, ReadWork, SendWork, Work, WriteWork};

/// The posting side of one reliable connection (an RC queue pair), whose own state is
/// *established*: Hello and HelloAck have gone both ways, and at both ends the receives that they
/// announced are the first that the machine asks for. It may be told of a loss at any time.
///
/// Besides what stands at the methods, the machine relies on this:
///
/// * Works of the send queue are executed in the order in which they were posted, each once, and
///   complete in that order. A completion means that the peer's memory has the bytes, and that the
///   peer's receive was taken if the work takes one. It is given to [`Connection::handle_sent`];
///   the completion of a later work stands for those before it.
/// * What takes receives (SEND, RDMA WRITE with immediate data) takes them in the order of the
///   works, and the receiving side's completions come in that order, each after all of its bytes
///   are in memory. They are given to [`Connection::handle_message`] and
///   [`Connection::handle_write`]. Between the two queues there is no order.
/// * A work that finds no receive waits and is tried again without end (`rnr_retry` 7), and holds
///   up all behind it. In *credit* and *ring* this does not happen. In *nic* it is the flow
///   control: the bytes of an RDMA WRITE may be in the peer's memory before its receive exists.
/// * The second queue pair of *nic* ([`Pair::Offers`]) is another connection: between the two there
///   is no order. It ends with the first, and the first with it.
/// * The queues have room: [`crate::connection::DATA_WORKS`] and
///   [`crate::connection::CONTROL_WORKS`] together in the send queue, as many receives as
///   [`crate::connection::Config::receives`] says; of the second queue pair
///   [`crate::connection::CONTROL_WORKS`] and [`crate::connection::OFFER_RECEIVES`].
/// * When the queue pair goes into error, or the connection manager tells of the peer's end,
///   everything that was completed well before is handed over, then
///   [`Connection::handle_lost`] is called.
pub trait Driver {
    /// Why a post failed: the connection is lost.
    type Error;

    /// Posts a receive with the receive buffer `slot`, of
    /// [`crate::connection::Config::receive_bytes`] bytes, of the second queue pair of
    /// [`crate::connection::MESSAGE_BYTES`]. Buffers lie one behind the other.
    ///
    /// # Errors
    /// The queue pair takes no work.
    fn post_receive(&mut self, pair: Pair, slot: u16) -> Result<(), Self::Error>;

    /// Posts a SEND. Its header is given by value: it is sent inline, or, where data follow, copied
    /// in front of these in the send buffer. With a completion.
    ///
    /// # Errors
    /// The queue pair takes no work.
    fn post_send(&mut self, work: &SendWork) -> Result<(), Self::Error>;

    /// Posts an RDMA WRITE with immediate data from the send buffer to the peer's ring, whose
    /// address and key were in its Hello or HelloAck. With a completion.
    ///
    /// # Errors
    /// The queue pair takes no work.
    fn post_write(&mut self, work: &WriteWork) -> Result<(), Self::Error>;

    /// Posts an RDMA READ of the peer's offer into the buffer that the program fetches to. With a
    /// completion, which means that the bytes are there.
    ///
    /// # Errors
    /// The queue pair takes no work.
    fn post_read(&mut self, work: &ReadWork) -> Result<(), Self::Error>;
}

/// Hands over all works that the machine has. To be called whenever something has happened.
///
/// # Errors
/// A post failed; the connection is lost.
pub fn drive<D: Driver>(connection: &mut Connection, driver: &mut D) -> Result<(), D::Error> {
    while drive_once(connection, driver)? {}
    Ok(())
}

/// Hands over the next work. False if there is none.
///
/// # Errors
/// The post failed; the connection is lost.
pub fn drive_once<D: Driver>(
    connection: &mut Connection,
    driver: &mut D,
) -> Result<bool, D::Error> {
    let posted = match connection.poll_work() {
        None => return Ok(false),
        Some(Work::Receive { pair, slot }) => driver.post_receive(pair, slot),
        Some(Work::Send(send)) => driver.post_send(&send),
        Some(Work::Write(write)) => driver.post_write(&write),
        Some(Work::Read(read)) => driver.post_read(&read),
    };
    if posted.is_err() {
        connection.handle_lost();
    }
    posted.map(|()| true)
}
