/* AWS's test suite for Signature Version 4, as far as it is legal HTTP here (no folded lines): requests and the
 * signatures that AWS published for them. Source: awslabs/aws-c-auth, tests/aws-signing-test-suite/v4 (Apache-2.0):
 * header-signed-request.txt and query-signed-request.txt of the case named. */
#ifndef TALLY_TESTS_UNIT_AUTH_VECTORS_H
#define TALLY_TESTS_UNIT_AUTH_VECTORS_H

#include <stdbool.h>

#define VECTOR_CREDENTIAL "AKIDEXAMPLE wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY 000000000000 read,write,admin"
#define VECTOR_SERVICE "service"
#define VECTOR_NOW_S 1440938160 /* 20150830T123600Z */

#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define HOST "Host:example.amazonaws.com\r\n"

struct vector {
    const char *name;
    bool is_presigned;
    const char *method;
    const char *path;
    const char *query; /* without what the signature adds */
    const char *head;  /* without Authorization and X-Amz-Date */
    const char *body;
    const char *signed_headers;
    const char *signature;
};

static const struct vector vectors[] = {
    {"get-vanilla", false, "GET", "/", "", HOST, "", "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-empty-query-key", false, "GET", "/", "Param1=value1", HOST, "", "host;x-amz-date",
     "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
    {"get-vanilla-query-order-key-case", false, "GET", "/", "Param2=value2&Param1=value1", HOST, "", "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-vanilla-query-order-encoded", false, "GET", "/", "Param-3=Value3&Param=Value2&%E1%88%B4=Value1", HOST, "",
     "host;x-amz-date", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
    {"get-vanilla-query-unreserved", false, "GET", "/", UNRESERVED "=" UNRESERVED, HOST, "", "host;x-amz-date",
     "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {"get-vanilla-utf8-query", false, "GET", "/",
     "\xe1\x88\xb4"
     "=bar",
     HOST, "", "host;x-amz-date", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
    {"get-unreserved", false, "GET", "/" UNRESERVED, "", HOST, "", "host;x-amz-date",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-utf8", false, "GET", "/\xe1\x88\xb4", "", HOST, "", "host;x-amz-date",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-space", false, "GET", "/example space/", "", HOST, "", "host;x-amz-date",
     "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
    {"get-relative-normalized", false, "GET", "/example/..", "", HOST, "", "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-relative-relative-normalized", false, "GET", "/example1/example2/../..", "", HOST, "", "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-slash-normalized", false, "GET", "//", "", HOST, "", "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-slash-dot-slash-normalized", false, "GET", "/./", "", HOST, "", "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-slash-pointless-dot-normalized", false, "GET", "/./example", "", HOST, "", "host;x-amz-date",
     "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5"},
    {"get-slashes-normalized", false, "GET", "//example//", "", HOST, "", "host;x-amz-date",
     "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"},
    {"get-header-key-duplicate", false, "GET", "/", "",
     HOST "My-Header1:value2\r\n"
          "My-Header1:value2\r\n"
          "My-Header1:value1\r\n",
     "", "host;my-header1;x-amz-date", "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
    {"get-header-value-order", false, "GET", "/", "",
     HOST "My-Header1:value4\r\n"
          "My-Header1:value1\r\n"
          "My-Header1:value3\r\n"
          "My-Header1:value2\r\n",
     "", "host;my-header1;x-amz-date", "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
    {"get-header-value-trim", false, "GET", "/", "",
     HOST "My-Header1: value1\r\n"
          "My-Header2: \"a   b   c\"\r\n",
     "", "host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"post-vanilla", false, "POST", "/", "", HOST, "", "host;x-amz-date",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"post-vanilla-query", false, "POST", "/", "Param1=value1", HOST, "", "host;x-amz-date",
     "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
    {"post-header-value-case", false, "POST", "/", "", HOST "My-Header1:VALUE1\r\n", "", "host;my-header1;x-amz-date",
     "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
    {"post-sts-header-after", false, "POST", "/", "",
     HOST "x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\r\n", "",
     "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"post-sts-header-before", false, "POST", "/", "",
     HOST "X-Amz-Security-Token:AQoDYXdzEPT//////////"
          "wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/"
          "kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+"
          "xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==\r\n",
     "", "host;x-amz-date;x-amz-security-token", "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
    {"post-x-www-form-urlencoded", false, "POST", "/", "",
     "Content-Type:application/x-www-form-urlencoded\r\n" HOST "Content-Length:13\r\n"
     "x-amz-content-sha256:9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e\r\n",
     "Param1=value1", "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
     "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"},
    {"post-x-www-form-urlencoded-parameters", false, "POST", "/", "",
     "Content-Type:application/x-www-form-urlencoded; charset=utf-8\r\n" HOST "Content-Length:13\r\n"
     "x-amz-content-sha256:9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e\r\n",
     "Param1=value1", "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
     "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422"},
    {"get-vanilla-query", true, "GET", "/", "", HOST, "", "host",
     "e93c787ed7f371d5c6b165c1b38ede9550f4dce4144713e844b25b7192d3865d"},
    {"get-vanilla-empty-query-key", true, "GET", "/", "Param1=value1", HOST, "", "host",
     "49096700cbbaa5753443850f40df10f904fc2fdb544dc9512203cc77c471a9de"},
    {"get-vanilla-query-order-key-case", true, "GET", "/", "Param2=value2&Param1=value1", HOST, "", "host",
     "86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5"},
    {"get-vanilla-query-order-encoded", true, "GET", "/", "Param-3=Value3&Param=Value2&%E1%88%B4=Value1", HOST, "",
     "host", "c5f1848ceec943ac2ca68ee720460c23aaae30a2300586597ada94c4a65e4787"},
    {"get-vanilla-query-unreserved", true, "GET", "/", UNRESERVED "=" UNRESERVED, HOST, "", "host",
     "8e76a88a7433637b12778d5592799b29ad21ecd6cf6325051c21d86f0acda2bf"},
    {"get-vanilla-utf8-query", true, "GET", "/",
     "\xe1\x88\xb4"
     "=bar",
     HOST, "", "host", "0bdd809b1519ac4f0c1dc3540e2cc46bd0c7f778eda408b2ebf3b913d21ff600"},
    {"get-unreserved", true, "GET", "/" UNRESERVED, "", HOST, "", "host",
     "95968482db1b9e0fadef6efc1bd24689f77c77d9ef56919c96a28cc92e0d6005"},
    {"get-utf8", true, "GET", "/\xe1\x88\xb4", "", HOST, "", "host",
     "10eae3f14a260bd3911cc6d008d3c576d143b05b62f09782a7a4b37f52178e44"},
    {"get-space", true, "GET", "/example space/", "", HOST, "", "host",
     "7a1f416954786484c9824d93c1f26ef64acb9b1b6c9154d08c9f07d0e394abf6"},
    {"get-header-key-duplicate", true, "GET", "/", "",
     HOST "My-Header1:value2\r\n"
          "My-Header1:value2\r\n"
          "My-Header1:value1\r\n",
     "", "host;my-header1", "3349ee0b81b4b589da0ff28a395c3591e04de515651dd74f298fa992d1507a97"},
    {"get-header-value-trim", true, "GET", "/", "",
     HOST "My-Header1: value1\r\n"
          "My-Header2: \"a   b   c\"\r\n",
     "", "host;my-header1;my-header2", "e7bb0fd515e125e1aec2ecc4c0c17484fb06f6846b927c35e46005dd3df3acd4"},
};

#endif
