"""Two real token servers, and a catalog that requires their tokens.

usage: tokens.py CATALOG_PORT

    /token      Authlib: client credentials of the client nsgate
    /exchange   idpy-oidc: token exchange for the client nsgate
    /user       a token that idpy-oidc gives the user diana; its keys are /jwks.json
    /catalog/…  the catalog at CATALOG_PORT, for holders of a token of either server that is nsgate's;
                prints `let in SERVER METHOD PATH` for each

Prints its own port and ends when standard input closes.
"""

import base64
import os
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc6750.errors import InvalidTokenError
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator, JWTBearerTokenValidator
from cryptojwt import JWT
from flask import Flask, Response, jsonify, request
from idpyoidc.message.oauth2 import AuthorizationRequest
from idpyoidc.server import Server
from idpyoidc.server.authn_event import create_authn_event
from idpyoidc.server.configure import ASConfiguration
from joserfc.jwk import ECKey, KeySet
from werkzeug.serving import make_server

ISSUER = "https://tokens.test"
ID, SECRET = "nsgate", "p@ss/w%r+d"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"

app = Flask(__name__)

# -- client credentials ------------------------------------------------------------------------------------------

AUTHLIB_KEYS = KeySet([ECKey.generate_key("P-256", {"kid": "authlib"})])


class Client:
    """The client nsgate."""

    def get_client_id(self):
        return ID

    def check_client_secret(self, secret):
        return secret == SECRET

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "client_secret_basic"

    def check_grant_type(self, grant_type):
        return grant_type == "client_credentials"

    def get_allowed_scope(self, scope):
        return "catalog.write" if scope == "catalog.write" else ""


class Generator(JWTBearerTokenGenerator):
    def get_jwks(self):
        return AUTHLIB_KEYS.as_dict(private=True)

    def get_audiences(self, client, user, scope):
        return ["lake"]


class Validator(JWTBearerTokenValidator):
    def get_jwks(self):
        return AUTHLIB_KEYS.as_dict(private=False)


clients = AuthorizationServer(app, lambda client: Client() if client == ID else None, lambda token, of: None)
clients.register_grant(ClientCredentialsGrant)
clients.register_token_generator("default", Generator(issuer=ISSUER, alg="ES256"))
validator = Validator(issuer=ISSUER, resource_server="lake")


@app.post("/token")
def token():
    return clients.create_token_response()


# -- token exchange ----------------------------------------------------------------------------------------------

SIGNING = [{"type": "EC", "crv": "P-256", "use": ["sig"]}]
CRYPT = {
    "kwargs": {
        "keys": {"key_defs": [{"type": "OCT", "use": ["enc"], "kid": kid} for kid in ("password", "salt")]},
        "iterations": 1,
    }
}
TRADER = Server(
    ASConfiguration(
        conf={
            "issuer": ISSUER,
            "keys": {"uri_path": "jwks.json", "key_defs": SIGNING},
            "key_conf": {"key_defs": SIGNING},
            "endpoint": {
                "token": {
                    "path": "exchange",
                    "class": "idpyoidc.server.oauth2.token.Token",
                    "kwargs": {"client_authn_method": ["client_secret_basic"]},
                }
            },
            "authz": {
                "class": "idpyoidc.server.authz.AuthzHandling",
                "kwargs": {
                    "grant_config": {
                        "usage_rules": {"access_token": {"supports_minting": ["access_token"], "expires_in": 600}},
                        "expires_in": 3600,
                    }
                },
            },
            "token_handler_args": {
                "key_conf": {"key_defs": SIGNING},
                "code": {"lifetime": 60, "kwargs": {"crypt_conf": CRYPT}},
                "token": {"class": "idpyoidc.server.token.jwt_token.JWTToken", "kwargs": {"lifetime": 600}},
            },
            "authentication": {
                "anon": {
                    "acr": "anon",
                    "class": "idpyoidc.server.user_authn.user.NoAuthn",
                    "kwargs": {"user": "diana"},
                }
            },
            "userinfo": {"class": "idpyoidc.server.user_info.UserInfo", "kwargs": {"db": {}}},
            "client_authn": "idpyoidc.server.client_authn.verify_client",
            "session_params": {"encrypter": CRYPT},
        },
        base_path=".",
    ),
    cwd=".",
)
TRADER.context.map_supported_to_preferred()
for name, secret in (("reader", "of-reader"), (ID, SECRET)):
    TRADER.context.cdb[name] = {
        "client_secret": secret,
        "client_salt": "salted",
        "redirect_uris": [("https://reader.test/", None)],
        "response_types": ["code"],
        "grant_types_supported": ["authorization_code", EXCHANGE],
        "token_endpoint_auth_method": "client_secret_basic",
        "allowed_scopes": ["openid"],
    }


@app.get("/jwks.json")
def jwks():
    return TRADER.keyjar.export_jwks()


@app.get("/user")
def user():
    """Issues a token as after a login at the client reader."""
    asked = AuthorizationRequest(
        client_id="reader", redirect_uri="https://reader.test/", scope=["openid"], state="s", response_type="code"
    )
    sessions = TRADER.context.session_manager
    session = sessions.create_session(create_authn_event("diana"), asked, "diana", client_id="reader")
    grant = TRADER.context.authz(session, asked)
    minted = grant.mint_token(
        session_id=session,
        context=TRADER.context,
        token_class="access_token",
        token_handler=sessions.token_handler["access_token"],
        usage_rules=grant.usage_rules["access_token"],
    )
    return minted.value


@app.post("/exchange")
def exchange():
    endpoint = TRADER.get_endpoint("token")
    # The endpoint does not undo the form encoding of RFC 6749, section 2.3.1, as Authlib does.
    headers = {"authorization": basic(request.authorization)}
    parsed = endpoint.parse_request(request.form.to_dict(), {"headers": headers})
    answer = endpoint.process_request(request=parsed)
    if "response_args" not in answer:
        return jsonify(answer.to_dict()), 400
    return jsonify(answer["response_args"].to_dict())


def basic(given):
    plain = ":".join(urllib.parse.unquote_plus(part) for part in (given.username, given.password))
    return "Basic " + base64.b64encode(plain.encode()).decode()


# -- the catalog -------------------------------------------------------------------------------------------------


def server_of(bearer):
    """Returns the server that gave nsgate this token; None if it is not such a token."""
    try:
        claims = validator.authenticate_token(bearer)
        validator.validate_token(claims, ["catalog.write"], request)
        return "authlib" if claims["client_id"] == ID else None
    except InvalidTokenError:
        pass
    try:
        claims = JWT(key_jar=TRADER.keyjar, allowed_sign_algs=["ES256"]).unpack(bearer)
        return "idpyoidc" if claims["client_id"] == ID else None
    except Exception as error:
        print("turned away:", type(error).__name__, flush=True)
        return None


@app.route("/catalog/", defaults={"path": ""}, methods=["GET", "POST"])
@app.route("/catalog/<path:path>", methods=["GET", "POST"])
def catalog(path):
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    server = server_of(bearer) if scheme == "Bearer" else None
    if server is None:
        return jsonify({"error": "a token is needed", "code": 16}), 401
    print("let in", server, request.method, path, flush=True)
    # The target as it was sent, not as Flask decodes it.
    target = request.environ["RAW_URI"].removeprefix("/catalog")
    kind = {"Content-Type": request.content_type} if request.content_type else {}
    onward = urllib.request.Request(
        f"http://127.0.0.1:{sys.argv[1]}{target}", request.get_data() or None, kind, method=request.method
    )
    try:
        answer = urllib.request.urlopen(onward)
    except urllib.error.HTTPError as error:
        answer = error
    return Response(answer.read(), answer.status, content_type=answer.headers.get("Content-Type"))


def main():
    os.environ["NO_PROXY"] = "*"
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("port", server.server_port, flush=True)
    sys.stdin.read()


main()
