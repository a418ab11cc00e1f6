//! Connections to the server that is recorded.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use drom_load::{Address, Security, Target, Trust};

use crate::{Error, rewrite::Place, side::Side};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Upstream {
    pub place: Place,
    address: SocketAddr,
    security: Option<Security>,
}

impl Upstream {
    /// Looks the host of `url` up and reads the certificates to trust.
    pub fn resolve(url: &str, trust: &Trust, keep_host: bool) -> Result<Self, Error> {
        let (host, port) = Target::place(url)?;
        let target = Target::resolve(url)?;
        if target.path != "/" {
            return Err(Error::Path { url: url.to_owned() });
        }
        let Address::Tcp(address) = target.address else {
            return Err(Error::Path { url: url.to_owned() });
        };
        let secure = target.secure;
        let security = secure.then(|| trust.security(&host, &["http/1.1"])).transpose()?;
        let place = Place { secure, authority: target.host, host, port, keep_host };
        Ok(Self { place, address, security })
    }

    /// A new connection; or why there is none, for the client's eyes.
    pub fn connect(&self) -> Result<Side, String> {
        let socket = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT).map_err(
            |error| match error.kind() {
                io::ErrorKind::ConnectionRefused => {
                    format!("{} refused the connection: no server listens there", self.address)
                }
                _ => format!("cannot connect to {}: {error}", self.address),
            },
        )?;
        let Some(security) = &self.security else {
            return Side::new(socket, None).map_err(|error| error.to_string());
        };
        self.secured(socket, security).map_err(|error| {
            let (address, reason) = (Address::Tcp(self.address), error.to_string());
            drom_load::Error::Handshake { address, reason }.to_string()
        })
    }

    fn secured(&self, mut socket: TcpStream, security: &Security) -> io::Result<Side> {
        let mut session = security.connection().map_err(io::Error::other)?;
        socket.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
        socket.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Side::new(socket, Some(session))
    }
}
