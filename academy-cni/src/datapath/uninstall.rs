//! Taking the data plane away.

use std::{fs, io};

use super::{
    Datapath,
    hooks::Hook,
    pins::{fail, layout},
    tc,
    types::HostState,
};
use crate::{
    error::{Error, Result},
    paths::Paths,
};

impl Datapath {
    /// Detaches every program and removes every pin of this layout. Other people's filters and
    /// qdiscs stay.
    ///
    /// # Errors
    /// Code 7 while an endpoint lives; code 5 when the kernel refuses.
    pub fn uninstall(paths: &Paths, host: &HostState) -> Result<()> {
        if let Some(datapath) = Self::open(paths)?
            && let Some((ifindex, _)) = datapath.endpoints()?.first()
        {
            let words = format!("a container behind interface {ifindex} still uses the data plane");
            return Err(Error::Conflict(words));
        }
        for link in &host.links {
            for hook in [Hook::FROM_UPLINK, Hook::TO_UPLINK] {
                let gone = tc::remove_filter(&hook.filter(link.index));
                gone.map_err(|error| fail("detach from", &link.name, &error))?;
            }
        }
        remove_all(&layout(paths))?;
        match fs::remove_dir(&paths.bpffs) {
            Err(error)
                if ![io::ErrorKind::NotFound, io::ErrorKind::DirectoryNotEmpty]
                    .contains(&error.kind()) =>
            {
                Err(fail("remove", &paths.bpffs.display().to_string(), &error))
            }
            _ => Ok(()),
        }
    }
}

fn remove_all(directory: &std::path::Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(fail("remove", &directory.display().to_string(), &error))
        }
        _ => Ok(()),
    }
}
