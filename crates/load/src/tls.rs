//! TLS over a socket: a [`TlsStream`] reads and writes like the socket below, once it is settled.
//!
//! rustls does the cryptography; this file moves its records without blocking. Whom to trust and
//! how to show oneself is a [`Trust`], read once a run.

use std::{
    fs::File,
    io::{self, BufReader, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use rustls::{
    ClientConfig, ClientConnection, InconsistentKeys, RootCertStore, SignatureScheme,
    SupportedCipherSuite, SupportedProtocolVersion,
    client::{
        ResolvesClientCert, Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject},
    },
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::{
    error::Error,
    socket::{Plain, Transport},
    tunnel::Tunnel,
};

/// Whom to trust and how to show oneself.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Any certificate is good.
    pub insecure: bool,
    /// Certificates to trust instead of the system's, PEM.
    pub ca_file: Option<PathBuf>,
    /// A certificate chain and its key, PEM, for servers that ask for one.
    pub client_files: Option<(PathBuf, PathBuf)>,
    /// Take earlier sessions up again instead of full handshakes.
    pub resume: bool,
    /// Do not tell the server the name that it is called by.
    pub no_sni: bool,
    /// Speak this version and no other.
    pub only: Option<TlsVersion>,
    /// Of TLS 1.2 these cipher suites and no others, by rustls's names, the best one first.
    pub suites: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    V12,
    V13,
}

impl TlsVersion {
    fn of(only: Option<Self>) -> &'static [&'static SupportedProtocolVersion] {
        static V12: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
        static V13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
        match only {
            Some(Self::V12) => &V12,
            Some(Self::V13) => &V13,
            None => rustls::DEFAULT_VERSIONS,
        }
    }
}

/// What client and server agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// As `TLSv1_3`.
    pub version: String,
    /// By rustls's names: `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// Of the key exchange: `X25519`.
    pub group: String,
    /// The server's, DER.
    pub certificate: Vec<u8>,
}

/// How a connection is secured: for all connections of a run.
#[derive(Clone, Debug)]
pub struct Security {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    tunnel: Option<Arc<[u8]>>,
    nobody: Arc<Nobody>,
}

/// Who has no certificate to show, and remembers that one was asked for.
#[derive(Debug, Default)]
struct Nobody {
    was_asked: AtomicBool,
}

impl ResolvesClientCert for Nobody {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

impl Trust {
    /// For connections to `host` (a name or an address), which will speak one of `protocols`.
    pub fn security(&self, host: &str, protocols: &[&str]) -> Result<Security, Error> {
        let bad_name = |_| Error::TlsName { host: host.to_owned() };
        let name = ServerName::try_from(host.to_owned()).map_err(bad_name)?;
        let provider = Arc::new(self.provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(TlsVersion::of(self.only))
            .map_err(|error| Error::Tls { reason: error.to_string() })?;
        let judge = Arc::new(self.judge(provider)?);
        let builder = builder.dangerous().with_custom_certificate_verifier(judge);
        let nobody = Arc::<Nobody>::default();
        let mut config = match &self.client_files {
            None => builder.with_client_cert_resolver(Arc::clone(&nobody) as Arc<_>),
            Some((chain, key)) => {
                let own = own_certificate(chain, key, self.provider())?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.enable_sni = !self.no_sni;
        config.resumption =
            if self.resume { Resumption::default() } else { Resumption::disabled() };
        Ok(Security { config: Arc::new(config), name, tunnel: None, nobody })
    }

    fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if let Some(names) = &self.suites {
            let of_tls13 =
                |suite: &SupportedCipherSuite| suite.version() == &rustls::version::TLS13;
            let (mut suites, all): (Vec<_>, Vec<_>) =
                provider.cipher_suites.into_iter().partition(of_tls13);
            let named = |name: &String| all.iter().find(|s| s.suite().as_str() == Some(name));
            // A server takes the first that it has, too, as a rule.
            suites.extend(names.iter().filter_map(named).copied());
            provider.cipher_suites = suites;
        }
        provider
    }

    fn judge(&self, provider: Arc<CryptoProvider>) -> Result<Judge, Error> {
        if self.insecure {
            return Ok(Judge { chains: None, known: Vec::new(), provider });
        }
        let known = self.ca_file.as_deref().map(certificates).transpose()?;
        let mut roots = RootCertStore::empty();
        let system = || rustls_native_certs::load_native_certs().certs;
        roots.add_parsable_certificates(known.clone().unwrap_or_else(system));
        if roots.is_empty() {
            let reason = "no certificate to trust was found; name one with --cacert FILE";
            return Err(Error::Tls { reason: reason.to_owned() });
        }
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let chains = chains.build().map_err(|error| Error::Tls { reason: error.to_string() })?;
        Ok(Judge { chains: Some(chains), known: known.unwrap_or_default(), provider })
    }
}

impl Security {
    /// Of connections to a proxy, which is asked this for a way to the server.
    #[must_use]
    pub fn through(self, asked: Option<&[u8]>) -> Self {
        Self { tunnel: asked.map(Arc::from), ..self }
    }

    /// The server wanted to see a certificate, and there was none to show.
    #[must_use]
    pub fn lacks_own_certificate(&self) -> bool {
        self.nobody.was_asked.load(Relaxed)
    }

    /// A connection before its handshake, for those who move its records themselves.
    pub fn connection(&self) -> Result<ClientConnection, Error> {
        let session = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        session.map_err(|error| Error::Tls { reason: error.to_string() })
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_reader_iter(open(file)?).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unusable(file, error))?;
    if found.is_empty() { Err(unusable(file, "it holds no PEM certificate")) } else { Ok(found) }
}

/// Whether the server takes it is the server's business: of what version it is, say. That the key
/// is its own is checked where the library can read it.
fn own_certificate(
    chain: &Path,
    key: &Path,
    provider: CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let certificates = certificates(chain)?;
    let signs = provider.key_provider.load_private_key(private_key(key)?);
    let own = CertifiedKey::new(certificates, signs.map_err(|error| unusable(key, error))?);
    match own.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(unusable(key, format!("it is not the key of {}", chain.display())))
        }
        _ => Ok(own),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_reader(open(file)?).map_err(|error| match error {
        pem::Error::NoItemsFound if is_encrypted(file) => {
            unusable(file, "the key in it is encrypted; openssl pkey -in FILE -out FILE opens it")
        }
        pem::Error::NoItemsFound => unusable(file, "it holds no private key (PEM)"),
        error => unusable(file, error),
    })
}

fn is_encrypted(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains("BEGIN ENCRYPTED PRIVATE KEY"))
}

fn open(file: &Path) -> Result<BufReader<File>, Error> {
    File::open(file).map(BufReader::new).map_err(|error| unusable(file, error))
}

fn unusable(file: &Path, why: impl ToString) -> Error {
    Error::TlsFile { file: file.to_owned(), reason: why.to_string() }
}

/// A connection whose bytes are TLS records on the socket.
#[derive(Debug)]
pub struct TlsStream<S> {
    pub socket: S,
    session: Box<ClientConnection>,
    /// What was asked for.
    config: Arc<ClientConfig>,
    /// The way through a proxy, until it is there.
    tunnel: Option<Tunnel>,
    stamp: Stamp,
    /// Nothing good comes behind what was read until here.
    broken: Option<rustls::Error>,
}

/// Whether a read is to say how long its records lay in the socket, and what it found.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    is_wanted: bool,
    lay_ns: Option<u64>,
}

/// The socket, read with stamps where they are wanted.
struct Stamping<'s, S> {
    socket: &'s mut S,
    stamp: &'s mut Stamp,
}

impl<S: Plain> Read for Stamping<'_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.stamp.is_wanted {
            return self.socket.read(into);
        }
        let (length, lay_ns) = self.socket.read_stamped(into)?;
        self.stamp.lay_ns = self.stamp.lay_ns.or(lay_ns);
        Ok(length)
    }
}

impl<S: Plain> TlsStream<S> {
    pub fn new(socket: S, security: &Security) -> io::Result<Self> {
        let session = Box::new(security.connection().map_err(io::Error::other)?);
        let tunnel = security.tunnel.clone().map(Tunnel::new);
        let (config, stamp) = (Arc::clone(&security.config), Stamp::default());
        Ok(Self { socket, session, config, tunnel, stamp, broken: None })
    }

    /// Reads records until there are none; whether the peer may still send. A record that is broken
    /// takes back nothing of those before it.
    fn pull(&mut self) -> io::Result<bool> {
        self.sound()?;
        let mut socket = Stamping { socket: &mut self.socket, stamp: &mut self.stamp };
        let length = self.session.read_tls(&mut socket)?;
        if let Err(error) = self.session.process_new_packets() {
            // The peer is told why, if it still listens.
            let _ = self.session.write_tls(&mut self.socket);
            self.broken = Some(error);
        }
        Ok(length > 0)
    }

    fn sound(&self) -> io::Result<()> {
        match &self.broken {
            Some(error) => Err(io::Error::new(ErrorKind::InvalidData, error.clone())),
            None => Ok(()),
        }
    }
}

impl<S: Plain> Transport for TlsStream<S> {
    fn settle(&mut self) -> io::Result<bool> {
        if let Some(tunnel) = &mut self.tunnel {
            if !tunnel.dig(&mut self.socket)? {
                return Ok(false);
            }
            self.tunnel = None;
        }
        while self.session.is_handshaking() {
            self.push()?;
            match self.pull() {
                Ok(true) => {}
                Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.push()?;
        let wants_h2 = self.config.alpn_protocols.iter().any(|protocol| protocol == b"h2");
        if wants_h2 && self.session.alpn_protocol() != Some(b"h2") {
            return Err(io::Error::other("the server does not speak HTTP/2 on this port"));
        }
        Ok(true)
    }

    fn push(&mut self) -> io::Result<()> {
        self.sound()?;
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn tls(&self) -> Option<TlsFacts> {
        let session = &self.session;
        let group = session.negotiated_key_exchange_group().map(|group| group.name());
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        Some(TlsFacts {
            version: session.protocol_version()?.as_str()?.to_owned(),
            suite: session.negotiated_cipher_suite()?.suite().as_str()?.to_owned(),
            group: group.and_then(|group| group.as_str()).unwrap_or_default().to_owned(),
            certificate: certificate.map(|der| der.to_vec()).unwrap_or_default(),
        })
    }

    fn read_stamped(&mut self, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        self.stamp = Stamp { is_wanted: true, lay_ns: None };
        let read = self.read(into);
        self.stamp.is_wanted = false;
        Ok((read?, self.stamp.lay_ns))
    }

    fn skip(&mut self, _: usize) -> Option<io::Result<usize>> {
        None
    }

    fn is_drained_by_short_reads(&self) -> bool {
        false
    }

    fn is_sound(&self) -> bool {
        self.broken.is_none()
    }
}

impl<S: Plain> Read for TlsStream<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Ok(length) => return Ok(length),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A close without TLS's own word for it: the framing says whether something lacks.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            self.pull()?;
            // That nothing can be written any more takes back nothing of what has come; the end
            // comes behind it.
            let _ = self.push();
        }
    }
}

impl<S: Plain> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.session.writer().write(bytes)?;
        self.push()?;
        if length == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(length) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}

/// Whether a certificate is good. Signatures are checked in any case, as the handshake costs what
/// it costs; where any certificate is good, one that this library cannot read (of version 1, with a
/// short key or an old hash) is, too.
#[derive(Debug)]
struct Judge {
    /// `None`: any certificate is good.
    chains: Option<Arc<WebPkiServerVerifier>>,
    /// These are good by themselves: a server's own certificate that the user names (self-signed
    /// ones are made as their own issuers, which no chain may end in).
    known: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.chains {
            Some(chains) if !self.known.contains(certificate) => {
                chains.verify_server_cert(certificate, between, name, ocsp, now)
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        self.settled(rustls::crypto::verify_tls12_signature(message, certificate, signature, known))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        self.settled(rustls::crypto::verify_tls13_signature(message, certificate, signature, known))
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        let mut known = self.provider.signature_verification_algorithms.supported_schemes();
        if self.chains.is_none() {
            known.extend(UNCHECKED_SCHEMES);
        }
        known
    }
}

/// Signatures that this library cannot check, of servers whose certificate does not matter.
const UNCHECKED_SCHEMES: [SignatureScheme; 3] = [
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ECDSA_SHA1_Legacy,
    SignatureScheme::RSA_PKCS1_SHA1,
];

type Checked = Result<HandshakeSignatureValid, rustls::Error>;

impl Judge {
    fn settled(&self, checked: Checked) -> Checked {
        match self.chains {
            None => checked.or(Ok(HandshakeSignatureValid::assertion())),
            Some(_) => checked,
        }
    }
}
