# Drom's commands. `make` alone lists them.

TARGET ?= $(or $(CARGO_TARGET_DIR),target)
PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share
PERL_PACKAGES = gcc make perl libperl-dev
SCRIPT_PACKAGES = libcgi-pm-perl libdbi-perl libdbd-sqlite3-perl
PEER_PACKAGES = apache2 libapache2-mod-perl2 nginx-light wrk nghttp2-client apache2-utils hey openssl \
	libdevel-nytprof-perl libdevel-dprof-perl libdevel-size-perl
# oha is in no Debian: built from crates.io, beside drom.
PEERS = $(abspath $(TARGET))/peers
FUZZ_CASES ?= 20000

# Where a perl looks for modules: the system's does so below /usr/local.
SITE_ARCH = $(shell perl -MConfig -e 'print $$Config{sitearch}')
PERL_ARCH = $(DESTDIR)$(if $(filter /usr/local,$(PREFIX)),$(SITE_ARCH),$(PREFIX)/lib/perl5)
SITE_LIB = $(shell perl -MConfig -e 'print $$Config{sitelib}')
PERL_LIB = $(DESTDIR)$(if $(filter /usr/local,$(PREFIX)),$(SITE_LIB),$(PREFIX)/share/perl5)

.PHONY: help demo test test-perls build bench bench-peers bench-verdicts accuracy fuzz ratchet install clean

help:
	@echo 'make demo         race the execution models of a Perl script; ends with a report'
	@echo 'make test         every test'
	@echo 'make test-perls   stacks and heaps of the perls of other Debian releases, in a chroot each (by root)'
	@echo 'make build        target/release/drom'
	@echo 'make bench-peers  install httpd with mod_perl, nginx, wrk, h2load, ab, hey, oha and Perl profilers, starting none'
	@echo 'make bench        measure against them; writes bench/RESULTS.md (BENCH="--quick --only load")'
	@echo 'make accuracy     how right drom load is: clocks, verdicts, capacities; writes bench/ACCURACY.md'
	@echo 'make bench-verdicts  how often drom bench is wrong; writes bench/BENCH.md (half an hour)'
	@echo 'make fuzz         the property tests with many more cases (FUZZ_CASES=20000)'
	@echo 'make ratchet      rewrite the list of what is over a limit of the house'
	@echo 'make install      install drom, its manual, completions and Perl modules below PREFIX (/usr/local)'
	@echo 'make clean        remove what was built and measured'

build:
	@scripts/rust.sh
	@scripts/packages.sh 'the build' $(PERL_PACKAGES)
	cargo build --release -p drom

demo:
	@scripts/rust.sh
	@scripts/packages.sh 'the demo' $(PERL_PACKAGES) $(SCRIPT_PACKAGES)
	cargo build --release -p drom
	scripts/demo.sh $(TARGET)/release/drom

test:
	@scripts/rust.sh
	@scripts/packages.sh 'the tests' $(PERL_PACKAGES) $(SCRIPT_PACKAGES)
	scripts/test.sh

# By root, with Debian's packages: `make test` has pictures of these perls' memory in their place.
# Heaps are known from 5.34 on, which bullseye's is not.
test-perls:
	@scripts/rust.sh
	scripts/perls.sh $(TARGET)/perls
	for root in $(abspath $(TARGET))/perls/*; do \
		export DROM_TEST_ROOT=$$root; cargo test -p drom-profile --test scenes stacks || exit 1; \
		[ $${root##*/} = bullseye ] && continue; \
		cargo test -p drom-profile --test heap || exit 1; \
		cargo test -p drom-profile --lib headers || exit 1; done

bench-peers:
	@scripts/packages.sh 'the comparison with other servers' $(PEER_PACKAGES)
	@scripts/rust.sh
	cargo install oha --locked --root $(PEERS) || echo 'without oha: its rows of the benchmark say so'
	@echo 'installed: $(PEER_PACKAGES)'

bench:
	@scripts/rust.sh
	@scripts/packages.sh 'the benchmark' $(PERL_PACKAGES) $(SCRIPT_PACKAGES)
	cargo build --release -p drom -p drom-bench
	PATH="$(PEERS)/bin:$$PATH" $(TARGET)/release/drom-bench --drom $(TARGET)/release/drom $(BENCH)

bench-verdicts: build
	scripts/bench-verdicts.pl $(TARGET)/release/drom >bench/BENCH.md.new
	mv bench/BENCH.md.new bench/BENCH.md

accuracy:
	@scripts/rust.sh
	cargo build --release -p drom-testkit --examples
	scripts/accuracy.sh $(TARGET)/release/examples >bench/ACCURACY.md.new
	mv bench/ACCURACY.md.new bench/ACCURACY.md

# Property tests take their number of cases from the environment; a failure prints the seed to keep.
fuzz:
	@scripts/rust.sh
	@scripts/packages.sh 'the tests' $(PERL_PACKAGES) $(SCRIPT_PACKAGES)
	PROPTEST_CASES=$(FUZZ_CASES) cargo test --release -p drom-load --lib --test answer --test http2
	PROPTEST_CASES=$(FUZZ_CASES) cargo test --release -p drom-scenario -p drom-classics
	PROPTEST_CASES=$(FUZZ_CASES) cargo test --release -p drom-serve --lib

ratchet:
	DROM_REWRITE_RATCHET=1 cargo test --quiet -p drom-tidy --test tidy

install: build
	install -D -m 755 $(TARGET)/release/drom $(DESTDIR)$(PREFIX)/bin/drom
	$(TARGET)/release/drom man $(SHARE)/man/man1
	install -d $(PERL_LIB)/Drom
	install -m 644 perl/lib/Drom/Bench.pm perl/lib/Drom/Clock.pm perl/lib/Drom/Memory.pm $(PERL_LIB)/Drom
	$(TARGET)/release/drom profile module $(PERL_ARCH)
	mkdir -p $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(TARGET)/release/drom completions bash >$(SHARE)/bash-completion/completions/drom
	$(TARGET)/release/drom completions zsh >$(SHARE)/zsh/site-functions/_drom
	$(TARGET)/release/drom completions fish >$(SHARE)/fish/vendor_completions.d/drom.fish

clean:
	cargo clean
	rm -rf runs bench/work
