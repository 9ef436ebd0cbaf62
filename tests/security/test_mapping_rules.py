"""ssl.principal.mapping.rules: Kafka's documented cases, and the names in certificates."""

import pytest

from kwire.security.mapping_rules import MappingRules, distinguished_name

DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("O=SME,cN=Duke.x,L=Fulton", "duke.x"),
        ("OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems"),
    ],
)
def test_the_rules_of_kafkas_documentation(name, user):
    """The first rule that matches counts."""
    assert MappingRules(DOCUMENTED).name_of(name) == user


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("RULE:^CN=(.*)$/$1/", "OU=x", None),
        ("RULE:CN=(.*)/$1/", "CN=a,O=b", "a,O=b"),
        ("RULE:CN=a/x/", "CN=ab", None),
        (r"RULE:CN=(.*?)\/(.*)/$2\/$1/", "CN=a/b", "b/a"),
        ("RULE:CN=(.*)/$1$2-$0/", "CN=a", "a$2-CN=a"),
        ("RULE:CN=(.*)/$11/", "CN=a", "a1"),
        ("RULE:CN=b/x/\nRULE:CN=a/y/U", "CN=a", "Y"),
        ("", "CN=a", None),
    ],
)
def test_a_rule_matches_the_whole_name(rules, name, user):
    """And its groups may be used; without a match there is no user."""
    assert MappingRules(rules).name_of(name) == user


@pytest.mark.parametrize(
    "rules",
    ["default", "RULE:x", "RULE:x/y", "RULE:x/y/Z", "RULE:(/y/", "DEFAULT,nonsense", "RULE:x/y/LU"],
)
def test_a_text_that_holds_no_rules(rules):
    """It stops the start, because clients would have other names than expected."""
    with pytest.raises(ValueError, match="invalid"):
        MappingRules(rules)


def test_no_name_takes_long():
    """Not with a pattern that backtracks for ever elsewhere; what needs backtracking is refused."""
    slow = MappingRules(r"RULE:^CN=(([a-z]+)+)+,OU=x$/$1/")
    assert slow.name_of("CN=" + "a" * 5000) is None
    for pattern in (r"CN=(.)\1", "CN=(?=a).*", "CN=(?<!a)b"):
        with pytest.raises(ValueError, match="the syntax is RE2's"):
            MappingRules(f"RULE:{pattern}/$1/")


def test_names_are_those_of_java():
    """The most specific part first, escaped, and with numbers where Java has no keyword."""
    subject = (
        (("countryName", "US"),),
        (("organizationName", 'A, "B" <c>'),),
        (("commonName", " x "), ("organizationalUnitName", "y")),
        (("emailAddress", "a@b"),),
    )
    assert distinguished_name(subject) == (
        r"1.2.840.113549.1.9.1=#1603614062,CN=\ x\ +OU=y,O=A\, \"B\" \<c\>,C=US"
    )
