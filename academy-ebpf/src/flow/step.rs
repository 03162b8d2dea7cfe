//! How a conversation's state moves with a packet. No maps, no kernel: rows in, decision out.

use academy_common::{Flow, FlowState, seen};

use crate::{
    maps::Table,
    parse::{Headers, tcp_flags},
};

/// How long after its first datagram an opener must speak again for a UDP conversation to count
/// as established, nanoseconds: one-shot exchanges stay among the opening ones.
pub const UDP_ESTABLISHED_AFTER: u64 = 2_000_000_000;

/// What a packet does to its conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What the packet's direction has sent by now, see [`seen`].
    pub seen: u8,
    /// The conversation moves to another table.
    pub change: Change,
}

/// A move of a conversation between the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// None.
    Stay,
    /// From `opening` to `flows`.
    Establish,
    /// Back to `opening`, as closing.
    Close,
}

/// Whether a packet can change its conversation's state at all; most cannot, and need no look at
/// the other direction's row.
#[inline(always)]
#[must_use]
pub fn may_change<A>(flow: &Flow<A>, table: Table, headers: &Headers<A>) -> bool {
    const MARKERS: u8 = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
    if flow.state == FlowState::Closing as u8 {
        return false;
    }
    table == Table::Opening || headers.tcp.flags & MARKERS != 0
}

/// Decides what a packet of the direction of `flow` does, `other` being the other direction.
#[inline(always)]
#[must_use]
pub fn step<A>(
    flow: &Flow<A>,
    other: &Flow<A>,
    table: Table,
    headers: &Headers<A>,
    tcp: bool,
    now: u64,
) -> Step {
    let mut seen_now = flow.seen;
    let opener = flow.opener == 1;
    let answered = other.seen & seen::SPOKE != 0;
    if !tcp {
        seen_now |= seen::SPOKE;
        let again = now.wrapping_sub(flow.opened) >= UDP_ESTABLISHED_AFTER;
        let establish = table == Table::Opening && opener && answered && again;
        let change = if establish { Change::Establish } else { Change::Stay };
        return Step { seen: seen_now, change };
    }

    let packet = &headers.tcp;
    if packet.has(tcp_flags::RST) {
        // What the other side acknowledged last is the sequence number it accepts a reset at
        // (RFC 5961 3.2). Any other only shortens the idle time: a blind one ends nothing.
        if packet.sequence == other.acknowledged {
            return Step { seen: seen_now | seen::RST, change: Change::Close };
        }
        return Step { seen: seen_now | seen::RST, change: Change::Stay };
    }
    if packet.has(tcp_flags::SYN) {
        if opener || packet.has(tcp_flags::ACK) {
            seen_now |= seen::SPOKE;
        }
        return Step { seen: seen_now, change: Change::Stay };
    }
    if packet.has(tcp_flags::FIN) {
        seen_now |= seen::FIN;
        if other.seen & seen::FIN != 0 {
            return Step { seen: seen_now, change: Change::Close };
        }
    }
    let establish = table == Table::Opening
        && opener
        && answered
        && packet.has(tcp_flags::ACK)
        && packet.acknowledgement == other.expected;
    Step { seen: seen_now, change: if establish { Change::Establish } else { Change::Stay } }
}

#[cfg(test)]
mod tests {
    use academy_common::Ipv4;

    use super::*;
    use crate::testing::{tcp4, udp4};

    const TCP: bool = true;
    const UDP: bool = false;

    fn opener() -> Flow<Ipv4> {
        Flow {
            opener: 1,
            seen: seen::SPOKE,
            state: FlowState::Opening as u8,
            opened: 1_000,
            ..Flow::default()
        }
    }

    fn answerer(seen: u8) -> Flow<Ipv4> {
        Flow { seen, state: FlowState::Opening as u8, opened: 1_000, ..Flow::default() }
    }

    fn packet(flags: u8) -> Headers<Ipv4> {
        Headers::parse(&tcp4(flags, b""), 14).unwrap()
    }

    #[test]
    fn a_syn_ack_is_an_answer_and_the_ack_of_it_establishes() {
        let reply = packet(tcp_flags::SYN | tcp_flags::ACK);
        let step_of_reply = step(&answerer(0), &opener(), Table::Opening, &reply, TCP, 0);
        assert_eq!(step_of_reply, Step { seen: seen::SPOKE, change: Change::Stay });

        let ack = packet(tcp_flags::ACK);
        let mut other = answerer(seen::SPOKE);
        other.expected = ack.tcp.acknowledgement;
        let step_of_ack = step(&opener(), &other, Table::Opening, &ack, TCP, 0);
        assert_eq!(step_of_ack.change, Change::Establish);
    }

    #[test]
    fn an_ack_of_something_else_establishes_nothing() {
        let ack = packet(tcp_flags::ACK);
        let mut other = answerer(seen::SPOKE);
        other.expected = ack.tcp.acknowledgement.wrapping_add(1);
        assert_eq!(
            step(&opener(), &other, Table::Opening, &ack, TCP, 0).change,
            Change::Stay,
            "a blind ACK after a forged SYN must not fill the table of established ones"
        );
        let mut silent = answerer(0);
        silent.expected = ack.tcp.acknowledgement;
        assert_eq!(step(&opener(), &silent, Table::Opening, &ack, TCP, 0).change, Change::Stay);
    }

    #[test]
    fn the_answering_side_establishes_nothing() {
        let ack = packet(tcp_flags::ACK);
        let mut other = opener();
        other.expected = ack.tcp.acknowledgement;
        let step = step(&answerer(seen::SPOKE), &other, Table::Opening, &ack, TCP, 0);
        assert_eq!(step.change, Change::Stay);
    }

    #[test]
    fn the_second_fin_closes() {
        let fin = packet(tcp_flags::FIN | tcp_flags::ACK);
        let first = step(&opener(), &answerer(seen::SPOKE), Table::Flows, &fin, TCP, 0);
        assert_eq!(first, Step { seen: seen::SPOKE | seen::FIN, change: Change::Stay });
        let other = answerer(seen::SPOKE | seen::FIN);
        let second = step(&opener(), &other, Table::Flows, &fin, TCP, 0);
        assert_eq!(second.change, Change::Close);
    }

    #[test]
    fn only_a_reset_in_sequence_closes() {
        let reset = packet(tcp_flags::RST);
        let mut other = answerer(seen::SPOKE);
        other.acknowledged = reset.tcp.sequence;
        assert_eq!(step(&opener(), &other, Table::Flows, &reset, TCP, 0).change, Change::Close);
        other.acknowledged = reset.tcp.sequence.wrapping_add(1);
        let blind = step(&opener(), &other, Table::Flows, &reset, TCP, 0);
        assert_eq!(blind, Step { seen: seen::SPOKE | seen::RST, change: Change::Stay });
    }

    #[test]
    fn udp_is_established_when_the_opener_speaks_again_after_two_seconds_to_an_answerer() {
        let datagram = Headers::<Ipv4>::parse(&udp4(b"x"), 14).unwrap();
        let change = |other: u8, opened_ago: u64| {
            let now = 1_000 + opened_ago;
            step(&opener(), &answerer(other), Table::Opening, &datagram, UDP, now).change
        };
        assert_eq!(change(seen::SPOKE, UDP_ESTABLISHED_AFTER), Change::Establish);
        assert_eq!(change(seen::SPOKE, UDP_ESTABLISHED_AFTER - 1), Change::Stay);
        assert_eq!(change(0, UDP_ESTABLISHED_AFTER), Change::Stay);
    }

    #[test]
    fn most_packets_of_an_established_conversation_cannot_change_it() {
        let established = Flow { state: FlowState::Established as u8, ..opener() };
        assert!(!may_change(&established, Table::Flows, &packet(tcp_flags::ACK)));
        for flags in [tcp_flags::FIN, tcp_flags::RST, tcp_flags::SYN] {
            assert!(may_change(&established, Table::Flows, &packet(flags | tcp_flags::ACK)));
        }
        let closing = Flow { state: FlowState::Closing as u8, ..opener() };
        assert!(!may_change(&closing, Table::Opening, &packet(tcp_flags::FIN)));
    }
}
