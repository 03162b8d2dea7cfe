//! The maps and programs of the data plane: the only part that talks to BPF.

mod batch;
mod endpoints;
mod hooks;
mod pins;
mod ports;
mod probe;
mod rows;
mod sweep;
mod tc;
mod types;
mod uninstall;
mod uplinks;

pub use self::{
    pins::Datapath,
    probe::probe,
    sweep::Sweep,
    types::{AttachMode, EndpointSpec, HostLink, HostState, PortHolder, PortRow, PortRowKey},
};
