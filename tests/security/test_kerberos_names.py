"""From Kerberos principals to user names, as KerberosNameTest of Kafka has it."""

import pytest

from kwire.security.kerberos_names import LocalNames, NoLocalName

REALM = "REALM.COM"


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        (["DEFAULT"], "App.service-name/example.com@REALM.COM", "App.service-name"),
        (["DEFAULT"], "user@REALM.COM", "user"),
        (["DEFAULT"], "user", "user"),
        ([r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g", "DEFAULT"], "App.svc@REALM.COM", "svc"),
        ([r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g"], "App.svc/h@REALM.COM", "svc"),
        (["RULE:[1:$1]/L"], "User@REALM.COM", "user"),
        (["RULE:[2:$1]/U"], "Test/host@REALM.COM", "TEST"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "eve@OTHER", "eve"),
        (["RULE:[2:$1-$2]"], "a/b@X", "a-b"),
        (["RULE:[1:$1]s/a/b/"], "aaa@X", "baa"),
        (["RULE:[1:$1]s/a/b/g"], "aaa@X", "bbb"),
    ],
)
def test_the_first_rule_that_fits_counts(rules, principal, name):
    """With formats, patterns, groups, replacements and cases."""
    assert LocalNames(rules, REALM).name_of(principal) == name


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        (["DEFAULT"], "user@OTHER.REALM"),
        (["DEFAULT"], "a/b/c@REALM.COM"),
        (["DEFAULT"], ""),
        (["RULE:[2:$1]"], "user@REALM.COM"),
        (["RULE:[1:$1](x.*)"], "user@REALM.COM"),
        (["RULE:[1:$1@$0]", "DEFAULT"], "user@REALM.COM"),
    ],
)
def test_whom_no_rule_names_is_nobody(rules, principal):
    """A name with an at sign is none either."""
    with pytest.raises(NoLocalName):
        LocalNames(rules, REALM).name_of(principal)


@pytest.mark.parametrize(
    "rule",
    ["RULE:[:$1]", "RULE:[1:$2]", "RULE:[3:$3]", "RULE:[1:$1](()", "RULE:[1:$1]s/a/$1/", "x"],
)
def test_what_is_no_rule(rule):
    """The broker doesn't start with it."""
    with pytest.raises(ValueError, match=r"invalid|no such"):
        LocalNames([rule], REALM)
