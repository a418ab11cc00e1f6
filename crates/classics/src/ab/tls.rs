//! What ab tells of TLS: by OpenSSL's names, from what the engine's connection agreed on. Pure.

use std::net::IpAddr;

use drom_load::{TlsFacts, TlsVersion};

use super::Options;

/// Lines of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secured {
    /// Version, cipher, bits of the server's key, bits of the cipher.
    pub protocol: String,
    /// Of the key exchange.
    pub key: Option<String>,
    /// As the server was told it: no address.
    pub name: Option<String>,
}

/// The one version that `-f` asks for; none for `ALL` and for words that mean nothing, which ab
/// passes over, too; or the word that asks for one that is not spoken.
pub fn version(word: &str) -> Result<Option<TlsVersion>, &str> {
    match &*word.to_ascii_uppercase() {
        "ALL" => Ok(None),
        "TLS1.2" => Ok(Some(TlsVersion::V12)),
        "TLS1.3" => Ok(Some(TlsVersion::V13)),
        "SSL2" | "SSL3" | "TLS1" | "TLS1.0" | "TLS1.1" => Err(word),
        _ => Ok(None),
    }
}

/// Those of TLS 1.2 that the engine speaks, in the order of OpenSSL's sets.
const SUITES: [&str; 6] = [
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
];

/// What `-Z` names of those, by name or by OpenSSL's sets (`HIGH:!aNULL`, `ECDHE+AESGCM`), and the
/// words that name none of them: older ciphers. TLS 1.3 has its own, for which `-Z` never spoke.
#[must_use]
pub fn suites(list: &str) -> (Vec<String>, Vec<&str>) {
    let (mut found, mut others, mut never) = (Vec::<&str>::new(), Vec::new(), Vec::new());
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        // A level of security is no cipher.
        let word = word.split('@').next().unwrap_or_default();
        if let Some(out) = word.strip_prefix(['!', '-']) {
            found.retain(|suite| !is_in(suite, out));
            // What is behind it does not bring those back.
            never.extend(word.strip_prefix('!'));
        } else if let Some(last) = word.strip_prefix('+') {
            // The order is what the client would like best first.
            let (behind, before): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|suite| is_in(suite, last));
            found = before.into_iter().chain(behind).collect();
        } else if !word.is_empty() {
            let may_be = |suite: &&str| !never.iter().any(|out| is_in(suite, out));
            let named = SUITES.into_iter().filter(|suite| is_in(suite, word)).filter(may_be);
            let named: Vec<&str> = named.filter(|suite| !found.contains(suite)).collect();
            if named.is_empty() && !SUITES.iter().any(|suite| is_in(suite, word)) {
                others.push(word);
            }
            found.extend(named);
        }
    }
    (found.into_iter().map(str::to_owned).collect(), others)
}

/// Of all sets that are joined by `+` (ciphers(1) of OpenSSL).
fn is_in(suite: &str, word: &str) -> bool {
    let name = openssl_name(suite);
    word.split('+').all(|set| match set {
        "ALL" | "DEFAULT" | "HIGH" | "TLSv1.2" | "ECDHE" | "EECDH" | "kECDHE" | "kEECDH" => true,
        "RSA" | "aRSA" => name.contains("-RSA-"),
        "ECDSA" | "aECDSA" => name.contains("-ECDSA-"),
        "AES" => name.contains("-AES"),
        "AES128" | "AES256" => name.contains(set),
        "AESGCM" => name.contains("-GCM-"),
        "CHACHA20" => name.contains("-CHACHA20-"),
        "SHA256" | "SHA384" => name.ends_with(set),
        one => name == one,
    })
}

impl Secured {
    #[must_use]
    pub fn of(options: &Options, facts: &TlsFacts) -> Self {
        let version = facts.version.replace('_', ".");
        let suite = openssl_name(&facts.suite);
        let key_bits = key_bits(&facts.certificate).unwrap_or(0);
        let cipher_bits = if suite.contains("128") { 128 } else { 256 };
        let host = options.url.host.trim_matches(['[', ']']);
        let is_told = !options.tls.no_sni && host.parse::<IpAddr>().is_err();
        Self {
            protocol: format!("{version},{suite},{key_bits},{cipher_bits}"),
            key: temporary_key(&facts.group),
            name: is_told.then(|| host.to_owned()),
        }
    }
}

/// `TLS13_AES_256_GCM_SHA384` and `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384` as OpenSSL has them.
fn openssl_name(suite: &str) -> String {
    if let Some(rest) = suite.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let plain = suite.trim_start_matches("TLS_").replace("_WITH_", "-").replace('_', "-");
    let name = plain.replace("AES-128", "AES128").replace("AES-256", "AES256");
    name.strip_suffix("POLY1305-SHA256").map_or(name.clone(), |start| format!("{start}POLY1305"))
}

fn temporary_key(group: &str) -> Option<String> {
    Some(match group.to_ascii_lowercase().as_str() {
        "x25519" => "X25519 253 bits".to_owned(),
        "secp256r1" => "ECDH prime256v1 256 bits".to_owned(),
        "secp384r1" => "ECDH secp384r1 384 bits".to_owned(),
        "" => return None,
        other => other.to_owned(),
    })
}

const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
const BITS: u8 = 0x03;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;

const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const ED25519: &[u8] = b"\x2b\x65\x70";
/// Named curves and their bits.
const CURVES: [(&[u8], u32); 3] = [
    (b"\x2a\x86\x48\xce\x3d\x03\x01\x07", 256),
    (b"\x2b\x81\x04\x00\x22", 384),
    (b"\x2b\x81\x04\x00\x23", 521),
];

/// Bits of the public key in a certificate (RFC 5280, 4.1).
fn key_bits(certificate: &[u8]) -> Option<u32> {
    let (inner, _) = take(certificate, SEQUENCE)?;
    let (mut fields, _) = take(inner, SEQUENCE)?;
    if let Some((_, rest)) = take(fields, VERSION) {
        fields = rest;
    }
    // Serial number, signature, issuer, validity, subject.
    for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE] {
        (_, fields) = take(fields, tag)?;
    }
    let (key, _) = take(fields, SEQUENCE)?;
    let (algorithm, key) = take(key, SEQUENCE)?;
    let (name, parameters) = take(algorithm, OBJECT)?;
    if name == RSA {
        let (bits, _) = take(key, BITS)?;
        let (numbers, _) = take(bits.get(1..)?, SEQUENCE)?;
        return take(numbers, INTEGER).map(|(modulus, _)| number_bits(modulus));
    }
    if name == ED25519 {
        return Some(253);
    }
    let (curve, _) = take(parameters, OBJECT)?;
    CURVES.iter().find(|(known, _)| *known == curve).map(|(_, bits)| *bits)
}

fn number_bits(bytes: &[u8]) -> u32 {
    let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let unused = bytes.first().map_or(0, |byte| byte.leading_zeros());
    8 * bytes.len() as u32 - unused
}

/// The content of the DER value at the start, if it has this tag, and what follows.
fn take(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..=0x7f => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long & 0x7f)?;
            let few = digits.len() <= 4;
            let number = digits.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
            (few.then_some(number)?, rest)
        }
    };
    (*found == tag).then_some(())?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::options, *};

    #[test]
    fn ciphers_are_found_by_openssls_names() {
        let (found, others) = suites("ECDHE-RSA-AES128-GCM-SHA256:RC4-MD5:!aNULL");
        assert_eq!(found, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
        assert_eq!(others, ["RC4-MD5"]);
        let names = SUITES.map(openssl_name).join(":");
        assert_eq!(suites(&names), (SUITES.map(str::to_owned).to_vec(), Vec::new()), "{names}");
    }

    #[test]
    fn sets_of_openssl_are_sets() {
        let all = SUITES.map(str::to_owned).to_vec();
        for list in ["ALL", "DEFAULT:@SECLEVEL=0", "DEFAULT@SECLEVEL=0", "HIGH:!aNULL:+AES128"] {
            assert_eq!(suites(list), (all.clone(), Vec::new()), "{list}");
        }
        assert!(suites("!AES256:ALL").0.iter().all(|suite| !suite.contains("_256_GCM_")));
        assert!(suites("!AES256:ALL").0[0].contains("CHACHA20"));
        assert_eq!(suites("!AESGCM:!CHACHA20:DEFAULT").0.len(), 0);
        let last_first = suites("ALL:+ECDSA").0;
        assert!(last_first[0].contains("_RSA_") && last_first[5].contains("_ECDSA_"));
        let two = ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"];
        assert!(suites(&two.join(":")).0[0].contains("_128_"), "as they are written");
        let rsa = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";
        assert_eq!(suites("ALL:!AESGCM:-ECDSA"), (vec![rsa.to_owned()], Vec::new()));
        let (found, others) = suites("ECDHE+AESGCM+AES128:MEDIUM");
        assert_eq!((found.len(), others), (2, vec!["MEDIUM"]));
    }

    #[test]
    fn suites_have_openssls_names() {
        for (iana, openssl) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            ("TLS13_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ] {
            assert_eq!(openssl_name(iana), openssl);
        }
    }

    #[test]
    fn numbers_of_der_are_as_long_as_they_are() {
        assert_eq!(number_bits(&[0, 0x80, 0]), 16);
        assert_eq!(number_bits(&[0x01, 0xff]), 9);
        assert_eq!(number_bits(&[]), 0);
        assert_eq!(take(b"\x02\x01\x05rest", INTEGER), Some((&b"\x05"[..], &b"rest"[..])));
        assert_eq!(take(b"\x02\x81\x01\x05", INTEGER), Some((&b"\x05"[..], &b""[..])));
        for bad in [&b"\x02\x05\x01"[..], b"\x02", b"", b"\x02\x89123456789", b"\x30\x00"] {
            assert_eq!(take(bad, INTEGER), None);
        }
        assert_eq!(key_bits(b"\x30\x03\x30\x01\x02"), None);
    }

    #[test]
    fn a_name_is_told_and_an_address_is_not() {
        let facts = TlsFacts {
            version: "TLSv1_2".to_owned(),
            suite: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned(),
            group: "secp256r1".to_owned(),
            certificate: Vec::new(),
        };
        let name = |line: &str| Secured::of(&options(line), &facts).name;
        assert_eq!(name("https://a.example/"), Some("a.example".to_owned()));
        assert_eq!((name("-I https://a.example/"), name("https://[::1]/")), (None, None));
        let secured = Secured::of(&options("https://a/"), &facts);
        assert_eq!(secured.protocol, "TLSv1.2,ECDHE-RSA-AES128-GCM-SHA256,0,128");
        assert_eq!(secured.key.as_deref(), Some("ECDH prime256v1 256 bits"));
    }

    #[test]
    fn versions_are_those_that_can_be_spoken() {
        assert_eq!((version("ALL"), version("BOGUS")), (Ok(None), Ok(None)));
        assert_eq!(version("tls1.2"), Ok(Some(TlsVersion::V12)));
        assert_eq!((version("TLS1.1"), version("SSL3")), (Err("TLS1.1"), Err("SSL3")));
    }
}
