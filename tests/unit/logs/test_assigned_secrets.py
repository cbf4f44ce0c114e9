"""A secret without a shape is known by its name; code that only speaks of secrets stays as it
is."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.logs.redaction import BLOT, REDACTED, Redactor

LAST_WORD = re.compile(r"[!-~]{1,400}\Z")  # what `drafts` keeps back
HEX = "8f742231b10e8888abcd99ffeee85a57"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
AZURE = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CODE = "Zk9x2LmQ8rT4vW1yZk9x-LmQ8rT4vW1yZk9x2LmQ8_T"
SECRETS = [  # what stands there, and what has to be gone
    (f"SLACK_SIGNING_SECRET={HEX}", HEX),
    (f"signing_secret: {HEX}", HEX),
    (f'  "signing_secret": "{HEX}",', HEX),
    (f"signing_secret = '{HEX}'  # of the app", HEX),
    (f"Signing Secret: {HEX}", HEX),
    (f"my signing secret is {HEX}, thanks", HEX),
    (f"aws_secret_access_key = {AWS}", AWS),
    (f"export AWS_SECRET_ACCESS_KEY={AWS}", AWS),
    (f'"SecretAccessKey": "{AWS}",', AWS),
    (f"AKIAIOSFODNN7EXAMPLE,{AWS}", AWS),
    (f"AccountName=devstore;AccountKey={AZURE};EndpointSuffix=core.windows.net", AZURE),
    (f"Endpoint=sb://x.net/;SharedAccessKey={AZURE}", AZURE),
    (
        "https://a.net/c?sv=1&sig=Z%2FRHIX5Xcg0Mq2rqI3OlWTjEg2tYkboXr1%3D&se=2030",
        "Z%2FRHIX5Xcg0Mq2rqI3OlWTjEg2tYkboXr1%3D",
    ),
    (
        (
            '"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBg\\n-----END PRIVATE'
            ' KEY-----\\n"'
        ),
        "MIIEvQIBADANBg",
    ),
    ("Cookie: session=abc123def456; theme=dark", "abc123def456"),
    ("Set-Cookie: sid=31d4d96e407aad42; Path=/; Max-Age=3600; HttpOnly", "31d4d96e407aad42"),
    ("curl -H 'Cookie: d=k3jh4k5jh6' https://x.example", "k3jh4k5jh6"),
    ("password=hunter2", "hunter2"),
    ("password: hunter2", "hunter2"),
    ("password = hunter2", "hunter2"),
    ("password is hunter2 here", "hunter2"),
    ('PASSWORD="Tr0ub4dor&3"', "Tr0ub4dor&3"),
    ("DB_PASSWORD=P@ssw0rd!", "P@ssw0rd!"),
    ("db.password=s3cr3tP4ssw0rd", "s3cr3tP4ssw0rd"),
    ("passwd: g7Kq2m!x", "g7Kq2m!x"),
    ("pwd=l3tm31n99", "l3tm31n99"),
    ("Server=db;User Id=sa;Password=hunter2xyz;", "hunter2xyz"),
    ("pin password: 482915", "482915"),
    ("<password>hunter2xyz</password>", "hunter2xyz"),
    ('{\\"password\\": \\"hunter2xyz\\"}', "hunter2xyz"),
    ("  password: aHVudGVyMg==", "aHVudGVyMg=="),
    ("token=9f8a7b6c5d4e3f2a1b0c", "9f8a7b6c5d4e3f2a1b0c"),
    ('TOKEN: "d8e8fca2dc0f896fd7cb4cb0031ba249"', "d8e8fca2dc0f896fd7cb4cb0031ba249"),
    ("token => '9f8a7b6c5d4e3f2a1b0c'", "9f8a7b6c5d4e3f2a1b0c"),
    ("secret=Zk9x2LmQ8rT4vW1y", "Zk9x2LmQ8rT4vW1y"),
    ('const secret = "kJ8s7dK2j4h5";', "kJ8s7dK2j4h5"),
    ('api_key: "3KJh8s7dK2j4h5g6F7d8s9a0"', "3KJh8s7dK2j4h5g6F7d8s9a0"),
    ('apiKey = "3KJh8s7dK2j4h5g6F7d8s9a0"', "3KJh8s7dK2j4h5g6F7d8s9a0"),
    (
        "clientSecret: 'p0s8Q~abcDEF1234567890abcdefGHIJ.klmnop'",
        "p0s8Q~abcDEF1234567890abcdefGHIJ.klmnop",
    ),
    ("SECRET_KEY = 'django-insecure-2k3j4h5g6k7j8h9#$%^&*'", "2k3j4h5g6k7j8h9"),
    ("SECRET_KEY_BASE=0a1b2c3d4e5f60718293a4b5c6d7e8f9", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"),
    ("mysql --user=root --password=hunter2 db", "hunter2"),
    ("tool --api-key 3KJh8s7dK2j4h5g6F7d8s9a0 run", "3KJh8s7dK2j4h5g6F7d8s9a0"),
    ("tool --token 9f8a7b6c5d4e3f2a1b0c", "9f8a7b6c5d4e3f2a1b0c"),
    ("curl -u ada:hunter22 https://x.example", "hunter22"),
    ("machine api.example.org login ada password hunter2x", "hunter2x"),
    ("postgres://app:s3cr3t@db.internal/prod", "s3cr3t"),
    ("DATABASE_URL=postgresql://ada:correcthorse@10.0.0.1:5432/app", "correcthorse"),
    ("redis://:p4ssw0rdxyz@cache:6379/0", "p4ssw0rdxyz"),
    ("amqp://guest:Gu35t!@mq/", "Gu35t!"),
    ("Authorization: Bearer 9f8a7b6c5d4e3f2a1b0c", "9f8a7b6c5d4e3f2a1b0c"),
    ("Authorization: Basic YWRhOmh1bnRlcjI=", "YWRhOmh1bnRlcjI"),
    (
        "Authorization: Token 9944b09199c62bcf9418ad846dd0e4bbdfc6ee4b",
        "9944b09199c62bcf9418ad846dd0e4bbdfc6ee4b",
    ),
    ("X-Api-Key: 3KJh8s7dK2j4h5g6F7d8s9a0", "3KJh8s7dK2j4h5g6F7d8s9a0"),
    ("PRIVATE-TOKEN: 9f8a7b6c5d4e3f2a1b0c", "9f8a7b6c5d4e3f2a1b0c"),
    (f"http://127.0.0.1:7717/login?code={CODE}", CODE),
    (f"the key is ohmo_{CODE}", CODE),
    (f"ohmo-7717=1798000000.0123456789abcdef.{HEX}{HEX}", HEX),
]
BENIGN = """
password = get_password()
password = getpass.getpass("Password: ")
password = os.environ["DB_PASSWORD"]
password = os.environ.get("DB_PASSWORD2", "")
password: str
password: str | None = None
password: Optional[str] = None,
password=password
password=self._password2,
password = settings.database.password1
token: str
token = request.headers.get("Authorization", "")
token = secrets.token_urlsafe(32)
token = self.tokens[0]
token=cfg.v2.token
token: OAuth2Token
token = next(stream)
if token == "end":
if (password !== confirm2) {
token := lexer.Next()
for token in tokens: pass
max_tokens=4096
max_tokens: 128000
"prompt_tokens": 1200345, "completion_tokens": 98
tokenizer = AutoTokenizer.from_pretrained("gpt2")
const token = await getToken();
const { token } = useAuth2();
let secret: [u8; 32] = rng.gen();
pub token: Option<String>,
Password string `json:"password"`
private String password;
secret: env:SLACK_SIGNING_SECRET2
password: file:/run/secrets/db2
token: keyring:ohmo/slack1
api_key: ${OPENAI_API_KEY2}
token: ${{ secrets.GITHUB_TOKEN2 }}
password: {{ .Values.db.password1 }}
password = "%(password1)s"
password: $DB_PASSWORD1
--password "$PASSWORD1"
--token <your-token-1>
--token-file /etc/token1.txt
token_url=https://auth2.example.org/token1
token_type = "bearer"
token_endpoint: /oauth2/token
Authorization: Bearer <token>
Authorization: Bearer $TOKEN1
Authorization: Bearer ${{ secrets.T0KEN }}
Bearer authentication is used
Basic authentication, Basic Information2
Use Basic auth: user and password
WWW-Authenticate: Basic realm="x1"
"jsonwebtoken": "^9.0.2",
"csrf-token": "~1.2.3",
python-token==1.2.3
"next_token": "eyJDcmVhdGlvbkRhdGUi1OiIyMDE5"
nextPageToken: CAUQAA12xyZ8
IdempotencyToken: 527c5358-2a1a-4b9e-b1b9-7293b0ddff42
publicKeyToken="1fc8b3b9a1e18e3b"
arn:aws:secretsmanager:eu-west-1:123456789012:secret:rds-db1-AbCdEf
postgresql://user:password@localhost/db
postgresql://${USER}:${PASSWORD1}@localhost/db
http://localhost:8080/a@b
git@github.com:owner/repo2.git
ssh -p 2222 ada@host2
docker run -u 1000:1000 image2
chown root:wheel2 file
PWD=/home/ada/project2
OLDPWD=/srv/app2
password is required and must have 12 characters
Password: must be at least 8 characters
The token is valid for 10 minutes
Invalid token: unexpected end of input at line 1
the secret is in the vault
error: token expired at 2026-11-22T10:00:00Z
token: 2026-11-22T10:00:00Z
"password": "Enter your password2 again"
label: "Password", type: "password"
passwordResetToken: generateToken(16)
def test_password2(token): ...
assert token.kind == "name"
Cookie: name=value
response.set_cookie("theme", "dark")
credentials: include
credentials: "same-origin",
access_key = "AccessKey"
api_key="your_api_key_here"
secret = "projects/ohmo/secrets/db"
commit 8f742231b10e8888abcd99ffeee85a57aaaa0000
sha256:8f742231b10e8888abcd99ffeee85a578f742231b10e8888abcd99ffeee85a57
GET /login?code=
""".strip().split("\n")


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[text[:24] for text, _ in SECRETS])
def test_what_is_given_out_as_a_secret_is_taken_out(text: str, secret: str) -> None:
    assert secret in text
    for clean, mark in ((Redactor().words, REDACTED), (Redactor().text, BLOT)):
        for around in (text, f"before\n{text}\nafter", f"> {text}"):
            assert secret not in clean(around)
            assert mark in clean(around)
            assert clean(clean(around)) == clean(around)
    before, _, _ = text.partition(secret)
    assert Redactor().words(text).startswith(before[:8].partition("AKIA")[0])  # the name stays


@pytest.mark.parametrize("line", BENIGN)
def test_code_and_words_about_secrets_stay_as_they_are(line: str) -> None:
    assert Redactor().words(line) == line


def test_the_benign_list_is_long_and_stays_when_it_is_one_text() -> None:
    assert len(BENIGN) >= 80
    assert Redactor().words("\n".join(BENIGN)) == "\n".join(BENIGN)


NAMES = st.sampled_from(
    ["password", "DB_PASSWORD", "token", "api_key", "client_secret", "signing-secret", "AccountKey"]
)
JOINS = st.sampled_from(["=", ": ", " = ", '": "', "='", '\\": \\"', " => '"])
VALUES = st.text(
    "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=32, max_size=64
)


@given(NAMES, JOINS, VALUES)
def test_a_drawn_value_never_stays_behind_its_name(name: str, join: str, value: str) -> None:
    """Drawn from 32 characters on, at least one in six of them a digit, as issuers draw them."""
    if sum(map(str.isdigit, value)) < len(value) / 6 or len(set(value)) < 16:
        return
    assert value not in Redactor().words(f"{name}{join}{value}")


PIECES = st.one_of(
    st.sampled_from(
        [text for text, _ in SECRETS]
        + BENIGN
        + ["password", "token", "=", ":", '"', "'", "\\", " is ", "--", "Cookie:", "://", "@", " "]
    ),
    st.text(max_size=12),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=8).map("\n".join))
def test_to_clean_twice_is_to_clean_once(text: str) -> None:
    for clean in (Redactor().words, Redactor().text):
        assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[text[:24] for text, _ in SECRETS])
def test_a_stream_that_takes_nothing_back_never_shows_it(text: str, secret: str) -> None:
    """As `drafts.grown` does it: the last word waits; each beginning is the beginning of the
    next."""
    words = Redactor().words
    whole = f"Here: {text} and that was all"
    shown = ""
    for end in range(len(whole) + 1):
        now = LAST_WORD.sub("", words(whole[:end])).rstrip()
        assert secret not in now
        if "BEGIN" not in text:  # its first words are no secret, and are seen
            assert now.startswith(shown)
        shown = now


HOSTILE = [
    "password=",
    "token=token=",
    "token: ",
    "secret_key_base",
    "--password ",
    "--a-b-c-",
    'password="',
    "password is ",
    "Cookie: ",
    "cookie:a=b;",
    "cookie: " + "a=" * 50,
    "://a:",
    "://:@",
    "login x password",
    "login " + "x" * 99 + " ",
    "-u a:",
    "--user=a:",
    "/login?code=",
    "Bearer ",
    "Bearer aaaaaaaa",
    "Basic YWRhOmg ",
    "api key ",
    "secret access key",
    "\\\\\\",
    "token=" + "aB3" * 200,
    "token:" + "a1" * 300,
    "token:" + "a" * 199 + "!",
    "password=" + "a1_" * 170 + "!",
    "AKIAIOSFODNN7EXAMPLE ",
    "1234567890.",
    "ohmo_",
    "a.b." * 40,
    "token='" + "a." * 200,
]


@pytest.mark.parametrize("piece", HOSTILE, ids=[piece[:16] for piece in HOSTILE])
def test_a_text_that_is_made_to_be_slow_is_not(piece: str) -> None:
    """Twice the text takes about twice the time: a megabyte a few seconds on a slow machine. What
    is square by half at this size is never below 14."""

    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        began = time.thread_time()
        Redactor().words(text)
        Redactor().text(text)
        return time.thread_time() - began

    for _ in range(3):  # a busy machine's caches are nothing that a text can do
        small, large = seconds(7_812), seconds(62_500)
        if large < 0.7 and (large < 0.02 or large / small < 14):  # 8 is linear, 64 is square
            return
    pytest.fail(f"{small:.3f} s, eight times the text {large:.3f} s")


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_whatever_runs_together_is_read_without_a_failure(text: str) -> None:
    assert isinstance(Redactor().words(text), str)
