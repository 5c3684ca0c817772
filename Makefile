# Tally: thin rules over Meson and Ninja. `make` lists them.

SEEDS ?= 2000
SECONDS ?= 60
POOLS ?= 100000
N ?= 40
BUILD = build
WERROR ?= $(if $(CI),true,false)
MESON_OPTIONS = -Dwerror=$(WERROR)

.DEFAULT_GOAL := help
.PHONY: help build all check test unit system sim fuzz fuzz-build campaign campaign-salvage campaign-full-disk \
	campaign-backup campaign-drain image image-check \
	campaign-kills campaign-look campaign-cluster campaign-pool campaign-relay campaign-takeover campaign-asan \
	match-agree mutants bench bench-large soak fresh failover deb deb-check dist npm dist-check release count asan \
	tsan valgrind format format-check pictures reference docs docs-serve install \
	clean

help:
	@echo 'make build         the programs: build/bin/tallyd and build/bin/tally'
	@echo 'make all           the programs and all tests'
	@echo 'make check         what to run before each commit, in under 90 s on two cores: ./test check'
	@echo 'make test          everything ./test does; ./test --list says what each suite protects'
	@echo 'make unit          the unit tests'
	@echo 'make system        the system tests: the real daemon, real SDKs'
	@echo 'make sim SEEDS=N   the simulator, N seeds ($(SEEDS))'
	@echo 'make campaign-salvage SEEDS=N   every folder of the simulator damaged, salvaged and judged'
	@echo 'make fuzz SECONDS=N   each fuzz target for N seconds ($(SECONDS)); needs clang'
	@echo 'make campaign      a million groups under kills: order, nothing lost, nothing twice (CAMPAIGN=options)'
	@echo 'make campaign-look   the same load with onlookers, who must change nothing (CAMPAIGN=options)'
	@echo 'make campaign-pool   a million tickets, 64 matchers, the daemon killed every 3 s (CAMPAIGN=options)'
	@echo 'make campaign-relay   an outbox of 200,000 rows, everything killed 500 times (CAMPAIGN=options)'
	@echo 'make campaign-drain   100,000 messages moved in from another daemon, both killed 100 times (CAMPAIGN=options)'
	@echo 'make campaign-kills   two nodes over PostgreSQL, a million messages wait, the owner is killed 100 times'
	@echo 'make campaign-cluster   an hour of three nodes and 50 namespaces, with one fault a minute (CAMPAIGN=options)'
	@echo 'make campaign-backup   50 backups under load and kills, each restored and judged (ROUNDS=50 CAMPAIGN=options)'
	@echo 'make campaign-full-disk   20 times a full disk is drained, then a million messages (ROUNDS=20)'
	@echo 'make campaign-takeover   ten relays stand by, the one that works is killed 1,000 times (CAMPAIGN=options)'
	@echo 'make campaign-asan SECONDS=N   random requests of every action to a daemon with sanitizers, killed now and then'
	@echo 'make match-agree   the matcher held against a slow evaluator, on POOLS random pools ($(POOLS))'
	@echo 'make mutants N=N SEED=S   N small bugs ($(N)) at random places of core, log and api: do the tests see them?'
	@echo 'make bench         the numbers, each beside its reference'
	@echo 'make bench-large   50 million messages: sent, half deleted at random, kill -9, the rest drained (LARGE=options)'
	@echo 'make soak          30 minutes at 70 % of the peak while workers are killed: is all flat? (SOAK=options)'
	@echo 'make fresh         the first hour on minimal Debian 12, 13 and Ubuntu 24.04, as root (FRESH=names)'
	@echo 'make failover      docs/how-to/high-availability.md typed word for word on four empty machines, as root'
	@echo 'make deb           the Debian packages, into build/deb (VERSION=1.2.3-1)'
	@echo 'make deb-check     packages built twice, looked through, installed, upgraded and purged, as root (CHECK=steps)'
	@echo 'make dist          an archive that runs from any folder of a Linux, into build/dist (VERSION=1.2.3)'
	@echo 'make npm           the npm packages tally-server and @tally-queue/linux-*, of that, into build/dist'
	@echo 'make dist-check    both, in minimal Debian 12, 13 and Ubuntu 24.04, as root (CHECK=options)'
	@echo 'make release       all that a release needs, up to the tag: docs/internals/releasing.md (RELEASE=options)'
	@echo 'make image         an image for containers, build/image/tally-image.tar, of the Debian packages'
	@echo 'make image-check   docs/how-to/containers.md typed in Podman, as root (CHECK=FILE: that image)'
	@echo 'make count         instructions of each action, beside bench/instructions.json (COUNT=--update)'
	@echo 'make asan, tsan    build with sanitizers into build/asan, build/tsan'
	@echo 'make valgrind      the unit tests under valgrind'
	@echo 'make format        clang-format over src, include, tests, bench, packaging; format-check only looks'
	@echo 'make pictures      docs/pictures/*.svg, of the .dot beside each; needs Graphviz'
	@echo 'make reference     docs/reference/actions, commands and errors.md, of the service model and the help'
	@echo 'make docs          the site, build/docs/index.html, of README.md and docs; needs ./setup docs'
	@echo 'make docs-serve    the same at http://127.0.0.1:8000/, anew after each change of a page'
	@echo 'make install       the programs, their manual, completion, and libtally (DESTDIR and PREFIX as usual)'
	@echo 'make clean         removes what the compiler made, keeps build/deps'

# Where `make install` puts things; empty is /, as usual.
PREFIX ?= /usr/local
# Meson asks dpkg-architecture, which not every machine has; without it, libraries would go where no linker looks.
MULTIARCH = $(addprefix -Dlibdir=lib/,$(shell $(CC) -print-multiarch 2>/dev/null))

# $(call absolute,FOLDER): as a word of the shell, from the root on. Not every shell makes the home of PREFIX=~/…
absolute = "$$(realpath -ms -- "$(patsubst ~/%,$(HOME)/%,$(1))")"

build:
	@src/configure.sh $(BUILD)/release $(MESON_OPTIONS) $(MULTIARCH) \
		-Dprefix=$(call absolute,$(or $(PREFIX),/))
	@ninja -C $(BUILD)/release -n programs | grep -q 'no work to do' || ninja -C $(BUILD)/release --quiet programs
	@mkdir -p $(BUILD)/bin
	@for program in tallyd tally; do \
		[ ! -f $(BUILD)/release/src/$$program ] || cmp -s $(BUILD)/release/src/$$program $(BUILD)/bin/$$program || \
			install -m 755 $(BUILD)/release/src/$$program $(BUILD)/bin/$$program || exit 1; \
	done

all: build
	@ninja -C $(BUILD)/release --quiet

unit: all
	@meson test -C $(BUILD)/release --no-rebuild --print-errorlogs --suite unit

system: build
	/usr/bin/python3 -m pytest -q tests/system

sim: all
	$(BUILD)/release/tests/sim/sim --seeds $(SEEDS)
	$(BUILD)/release/tests/sim/sim_pools --seeds $(SEEDS)
	$(BUILD)/release/tests/sim/sim_owners --seeds $(SEEDS)

# Lines are enough of debugging information for a sanitizer, and -O1 compiles in half the time.
SANITIZED = -Doptimization=1 -Dc_args=-g1 -Db_lundef=false

fuzz-build:
	@CC=clang src/configure.sh $(BUILD)/fuzz $(MESON_OPTIONS) -Dfuzz=true -Db_sanitize=address,undefined $(SANITIZED)
	@ninja -C $(BUILD)/fuzz --quiet fuzzers

fuzz:
	@FUZZ_SECONDS=$(SECONDS) ./test fuzz-guided

campaign: all
	@rm -rf $(BUILD)/campaign $(BUILD)/campaign.log
	@$(BUILD)/release/tests/campaign/groups --tallyd $(BUILD)/bin/tallyd --folder $(BUILD)/campaign $(CAMPAIGN)
	@rm -rf $(BUILD)/campaign $(BUILD)/campaign.log

campaign-salvage: all
	$(BUILD)/release/tests/sim/sim --salvage --seeds $(SEEDS)
	$(BUILD)/release/tests/sim/sim_pools --salvage on --seeds $(SEEDS)

campaign-pool: all
	@rm -rf $(BUILD)/campaign $(BUILD)/campaign.log
	@$(BUILD)/release/tests/campaign/pool --tallyd $(BUILD)/bin/tallyd --folder $(BUILD)/campaign $(CAMPAIGN)
	@rm -rf $(BUILD)/campaign $(BUILD)/campaign.log

campaign-relay: build
	@/usr/bin/python3 -B tests/campaign/relay_campaign.py $(CAMPAIGN)

campaign-full-disk: build
	@/usr/bin/python3 -B tests/campaign/full_disk_campaign.py --rounds $(or $(ROUNDS),20) $(CAMPAIGN)

campaign-backup: build
	@/usr/bin/python3 -B tests/campaign/backup_campaign.py --rounds $(or $(ROUNDS),50) $(CAMPAIGN)

campaign-drain: build
	@/usr/bin/python3 -B tests/campaign/drain_campaign.py $(CAMPAIGN)

campaign-kills: build
	@/usr/bin/python3 -B tests/campaign/kills_campaign.py $(CAMPAIGN)

campaign-look: all
	$(BUILD)/release/tests/sim/sim --look 8 --seeds $(SEEDS)
	$(BUILD)/release/tests/sim/sim_pools --look 8 --seeds $(SEEDS)
	@/usr/bin/python3 -B tests/campaign/look_campaign.py $(CAMPAIGN)

campaign-cluster: build
	@/usr/bin/python3 -B tests/campaign/cluster_campaign.py $(CAMPAIGN)

campaign-takeover: build
	@/usr/bin/python3 -B tests/campaign/takeover_campaign.py $(CAMPAIGN)

# The sanitizers of gcc 12 can't place their shadow where a kernel spreads addresses over 32 bits.
campaign-asan: asan
	@setarch $$(uname -m) -R /usr/bin/python3 -B tests/campaign/asan_campaign.py --seconds $(SECONDS) $(CAMPAIGN)

match-agree: all
	@/usr/bin/python3 -B tests/match/agree.py $(BUILD)/release/tests/match/replay --pools $(POOLS) --jobs 2

# MUTANTS=options: --only src/core/batches/batch.c:35, --jobs 2, --list
mutants: all
	@/usr/bin/python3 -B tests/mutants/mutants.py --count $(N) $(if $(SEED),--seed $(SEED)) $(MUTANTS)

bench:
	@./setup bench
	@$(MAKE) --no-print-directory build
	@ninja -C $(BUILD)/release --quiet bench/load bench/echo bench/sigv4 bench/append
	./bench/run $(BENCH)

count: build
	@ninja -C $(BUILD)/release --quiet bench/instructions
	@./bench/count $(COUNT) || [ $$? = 77 ]

fresh:
	@./setup fresh
	@/usr/bin/python3 -B tests/fresh/fresh.py $(FRESH)

failover:
	@./setup fresh
	@/usr/bin/python3 -B tests/fresh/failover.py

deb:
	@./setup deb
	@packaging/build

deb-check:
	@./setup deb
	@/usr/bin/python3 -B packaging/check.py $(CHECK)

release:
	@packaging/release $(RELEASE)

# Each run begins with a folder of its own: what an older version left would be packed, too.
dist:
	@./setup build
	@rm -rf $(BUILD)/dist
	@packaging/dist $(BUILD)/dist

npm: dist
	@packaging/npm/pack $(BUILD)/dist/tally-*-linux-*/ $(BUILD)/dist

dist-check:
	@./setup fresh
	@/usr/bin/python3 -B packaging/dist_check.py $(CHECK)

image: deb
	@packaging/image

# The page's commands on this machine need the tool beside the image.
image-check: $(if $(CHECK),, image) build
	@./setup containers
	@/usr/bin/python3 -B packaging/image_check.py $(CHECK)

bench-large:
	@./setup build
	@$(MAKE) --no-print-directory build
	@ninja -C $(BUILD)/release --quiet bench/load
	@./bench/large $(LARGE)

soak:
	@./setup build
	@$(MAKE) --no-print-directory build
	@ninja -C $(BUILD)/release --quiet bench/load
	@./bench/soak $(SOAK)

asan:
	@src/configure.sh $(BUILD)/asan $(MESON_OPTIONS) -Db_sanitize=address,undefined $(SANITIZED)
	@ninja -C $(BUILD)/asan --quiet sanitized

tsan:
	@src/configure.sh $(BUILD)/tsan $(MESON_OPTIONS) -Db_sanitize=thread $(SANITIZED)
	@ninja -C $(BUILD)/tsan --quiet threaded

valgrind: all
	@meson test -C $(BUILD)/release --no-rebuild --print-errorlogs --suite unit --timeout-multiplier 20 \
		--wrap 'valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite'

FORMATTED = $(shell find src include tests bench packaging -name node_modules -prune -o -name "*.[ch]" -print)

format:
	@clang-format -i $(FORMATTED)

format-check:
	@clang-format --dry-run --Werror $(FORMATTED)

pictures:
	@docs/pictures/draw

reference:
	@docs/reference/generate

# The site, from the pages: docs/internals/site.md. Python leaves nothing among the sources.
MKDOCS = PYTHONDONTWRITEBYTECODE=1 mkdocs
has_mkdocs = command -v mkdocs >/dev/null || { echo 'make: there is no mkdocs here: ./setup docs' >&2; exit 1; }

docs:
	@$(has_mkdocs)
	@$(MKDOCS) build -q -f docs/site/mkdocs.yml -d "$(abspath $(BUILD))/docs"

docs-serve:
	@$(has_mkdocs)
	@$(MKDOCS) serve -f docs/site/mkdocs.yml

test:
	./test

check:
	./test check

# Nothing is rebuilt here: what is installed has been, and the tests are nobody's need. The linker learns of libtally.
install: build
	@destination=$(if $(DESTDIR),$(call absolute,$(DESTDIR))) && prefix=$(call absolute,$(or $(PREFIX),/)) && \
	{ mkdir -p "$$destination$$prefix" && [ -w "$$destination$$prefix" ] || { \
		echo "make install: can't write to $$destination$$prefix; be root, or name another folder: PREFIX=FOLDER" >&2; \
		exit 1; }; } && \
	DESTDIR="$$destination" meson install -C $(BUILD)/release --no-rebuild --quiet && \
	{ [ -n "$$destination" ] || [ "$$(id -u)" -ne 0 ] || PATH=$$PATH:/sbin ldconfig; } && \
	echo "tallyd and tally are in $$destination$${prefix%/}/bin, libtally beside them"

clean:
	rm -rf $(addprefix $(BUILD)/,bin release asan tsan fuzz corpus mutants test-logs fresh)
	rm -rf $(addprefix $(BUILD)/,deb deb-tree deb-check dist dist-build dist-installed dist-check image image-check)
