//! Chains that lead to a root and chains that do not.

use rcgen::{
    BasicConstraints, CertifiedIssuer, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

use super::*;
use crate::numbers::Numbers;
use crate::testing::{
    Authority, NOT_AFTER, NOT_BEFORE, intermediate, leaf, parameters, root, self_signed,
};

const NOW: u64 = NOT_BEFORE + 1000;

fn store(root: &Authority) -> Roots {
    Roots::of_pem(root.der()).unwrap()
}

fn verify(roots: &Roots, chain: &[&[u8]], at: u64) -> Result<(), String> {
    Verifier::new(roots.clone(), 0).verify(chain, at)
}

#[test]
fn chains_of_one_two_and_three() {
    let root = root("R");
    let (first, roots) = (intermediate("I", &root), store(&root));
    let second = intermediate("J", &first);
    let (a, b, c) = (
        leaf(parameters("a.example"), &root),
        leaf(parameters("a.example"), &first),
        leaf(parameters("a.example"), &second),
    );
    let (i, j, r) = (&first.der()[..], &second.der()[..], &root.der()[..]);
    let unknown = Err("no path to a root of the store".to_owned());
    for (chain, outcome) in [
        (vec![&a[..]], Ok(())),
        (vec![&b, i], Ok(())),
        (vec![&c, j, i], Ok(())),
        (vec![&c, i, j], Ok(())),
        (vec![&c, j, i, r], Ok(())),
        (vec![&c, j], unknown.clone()),
        (vec![&b], unknown),
        (vec![], Err("no certificate".to_owned())),
    ] {
        assert_eq!(verify(&roots, &chain, NOW), outcome, "{}", chain.len());
    }
    let unknown = verify(&Roots::mozilla(), &[&a], NOW);
    assert_eq!(unknown, Err("no path to a root of the store".to_owned()));
}

#[test]
fn what_is_wrong_with_a_chain() {
    let root = root("R");
    let roots = store(&root);
    let not_ca = leaf(parameters("b.example"), &root);
    let for_clients = {
        let mut of = parameters("a.example");
        of.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        leaf(of, &root)
    };
    let of_ca = {
        let mut of = parameters("a.example");
        of.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        leaf(of, &root)
    };
    let critical = {
        let mut of = parameters("a.example");
        let mut extension = CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0]);
        extension.set_criticality(true);
        of.custom_extensions.push(extension);
        leaf(of, &root)
    };
    let forged = {
        let mut der = leaf(parameters("a.example"), &root);
        let last = der.len() - 1;
        der[last] ^= 1;
        der
    };
    // The issuer of this leaf is not a CA.
    let below = {
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::signed_by(parameters("b.example"), key, &root).unwrap();
        let chain = leaf(parameters("a.example"), &issuer);
        (chain, issuer.der().to_vec())
    };
    let itself = self_signed("a.example", &KeyPair::generate().unwrap());
    for (chain, error) in [
        (vec![&itself[..]], "no path to a root of the store"),
        (
            vec![&for_clients],
            "not for servers by its extended key usage",
        ),
        (vec![&of_ca], "certificate of a CA as the leaf"),
        (vec![&critical], "critical extension not supported"),
        (vec![&forged], "wrong signature"),
        (
            vec![&below.0, &below.1],
            "certificate that is no CA's in the path",
        ),
        (vec![&not_ca[..20]], "certificate does not parse"),
    ] {
        let outcome = verify(&roots, &chain, NOW);
        assert_eq!(outcome, Err(error.to_owned()));
    }
}

#[test]
fn time_and_memory() {
    let root = root("R");
    let der = leaf(parameters("a.example"), &root);
    let other = leaf(parameters("b.example"), &root);
    let mut verifier = Verifier::new(store(&root), 1);
    let (early, late) = (Err("not valid yet".to_owned()), Err("expired".to_owned()));
    // A remembered outcome does not apply to another time. A forgotten chain is verified again.
    for _ in 0..2 {
        for (at, outcome) in [
            (NOT_BEFORE - 1, &early),
            (NOT_BEFORE, &Ok(())),
            (NOT_AFTER, &Ok(())),
            (NOT_AFTER + 1, &late),
            (0, &early),
            (u64::MAX, &late),
        ] {
            assert_eq!(verifier.verify(&[&der], at), *outcome, "{at}");
            assert_eq!(verifier.verify(&[&der], at), *outcome, "{at}");
            assert_eq!((verifier.known.len(), verifier.order.len()), (1, 1));
        }
        assert_eq!(verifier.verify(&[&other], NOW), Ok(()));
        assert!(!verifier.known.contains_key(&chain_key(&[&der])));
        assert_eq!((verifier.known.len(), verifier.order.len()), (1, 1));
    }
}

#[test]
fn an_outcome_holds_between_two_changes() {
    let root = root("R");
    let of = intermediate("I", &root);
    let der = leaf(parameters("a.example"), &of);
    let (from, until) = (NOT_BEFORE as i64, NOT_AFTER as i64 + 1);
    let (of_from, of_until) = (1_577_836_800, 2_208_988_801);
    let chain = [&der[..], &of.der()[..]];
    for (now, holds) in [
        (from, from..until),
        (until - 1, from..until),
        (until, until..of_until),
        (from - 1, of_from..from),
        (0, i64::MIN..of_from),
        (of_until, of_until..i64::MAX),
    ] {
        assert_eq!(steady(&chain, now), holds);
    }
    assert_eq!(steady(&[&der, b"x"], 7), 7..8);
    // A chain is not verified again while its outcome holds.
    let mut verifier = Verifier::new(store(&root), 4);
    verifier.verify(&chain, NOW).unwrap();
    let place = verifier.known.get_mut(&chain_key(&chain)).unwrap();
    place.1 = Err("remembered");
    let remembered = Err("remembered".to_owned());
    assert_eq!(verifier.verify(&chain, NOT_AFTER), remembered);
    assert_eq!(
        verifier.verify(&chain, NOT_AFTER + 1),
        Err("expired".to_owned())
    );
}

#[test]
fn damaged_chains_do_not_panic() {
    let root = root("R");
    let of = intermediate("I", &root);
    let der = leaf(parameters("a.example"), &of);
    let mut verifier = Verifier::new(store(&root), 8);
    let mut numbers = Numbers(5);
    assert_eq!(verifier.verify(&[&der, of.der()], NOW), Ok(()));
    for n in 0..der.len() * 8 {
        let mut damaged = der.clone();
        damaged[n / 8] ^= 1 << (n % 8);
        assert!(verifier.verify(&[&damaged, of.der()], NOW).is_err(), "{n}");
        let _ = crate::name_matches(&damaged, "a.example");
    }
    for _ in 0..5000 {
        let mut damaged = [der.clone(), of.der().to_vec()];
        for _ in 0..=numbers.next(4) {
            let bytes = &mut damaged[numbers.next(2)];
            let at = numbers.next(bytes.len());
            bytes[at] = numbers.next(256) as u8;
        }
        damaged[1].truncate(1 + numbers.next(2 * of.der().len()));
        let _ = verifier.verify(&[&damaged[0], &damaged[1]], NOW);
        let random: Vec<u8> = (0..60).map(|_| numbers.next(256) as u8).collect();
        assert!(verifier.verify(&[&random], NOW).is_err());
    }
}
