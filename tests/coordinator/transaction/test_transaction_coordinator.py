"""What producers ask of the transaction coordinator, in either protocol, with what goes wrong."""


def test_a_producer_commits_and_aborts_in_the_newer_protocol(script):
    """Every end bumps the epoch; markers carry the new one."""
    script.run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        add a p-0 q-1
            record Ongoing producer 1 epoch 0 [p-0 q-1]
            a add: ok
        add a p-0
            a add: ok
        commit a
            record PrepareCommit producer 1 epoch 1 [p-0 q-1]
            a: ok
        markers
            marker p-0 commit epoch 1
            marker q-1 commit epoch 1
            record CompleteCommit producer 1 epoch 1
        add a p-0
            record Ongoing producer 1 epoch 1 [p-0]
            a add: ok
        abort a
            record PrepareAbort producer 1 epoch 2 [p-0]
            a: ok
        markers
            marker p-0 abort epoch 2
            record CompleteAbort producer 1 epoch 2
    """)


def test_a_producer_commits_and_aborts_in_the_first_protocol(script):
    """The epoch stays; an end may be repeated; nothing can be ended that never began."""
    script.run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        commit a v=1
            a commit: INVALID_TXN_STATE
        abort a v=1
            a abort: INVALID_TXN_STATE
        add a p-0 v=1
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
        commit a v=1
            record PrepareCommit producer 1 epoch 0 [p-0]
            a: ok
        commit a v=1
            a commit: CONCURRENT_TRANSACTIONS
        abort a v=1
            a abort: CONCURRENT_TRANSACTIONS
        markers
            marker p-0 commit epoch 0
            record CompleteCommit producer 1 epoch 0
        commit a v=1
            a: done already
        abort a v=1
            a abort: INVALID_TXN_STATE
        add a p-0 v=1
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
        abort a v=1
            record PrepareAbort producer 1 epoch 0 [p-0]
            a: ok
        markers
            marker p-0 abort epoch 0
            record CompleteAbort producer 1 epoch 0
        abort a v=1
            a: done already
        commit a v=1
            a commit: INVALID_TXN_STATE
        commit a v=1 epoch=1
            a commit: PRODUCER_FENCED
    """)


def test_the_end_with_a_bump_at_rest(script):
    """The table of KIP-890: what a repeated and a current epoch may do to an ended transaction."""
    script.run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        commit a
            a commit: INVALID_TXN_STATE
        commit a epoch=-1   # an epoch before: repeated
            a commit: PRODUCER_FENCED
        abort a epoch=-1
            a abort: PRODUCER_FENCED
        abort a
            record PrepareAbort producer 1 epoch 1
            a: ok
        markers
            record CompleteAbort producer 1 epoch 1
        abort a epoch=0
            a: done already
        commit a epoch=0
            a commit: INVALID_TXN_STATE
        commit a
            a commit: INVALID_TXN_STATE
        abort a
            record PrepareAbort producer 1 epoch 2
            a: ok
        markers
            record CompleteAbort producer 1 epoch 2
        add a p-0
            record Ongoing producer 1 epoch 2 [p-0]
            a add: ok
        commit a
            record PrepareCommit producer 1 epoch 3 [p-0]
            a: ok
        markers
            marker p-0 commit epoch 3
            record CompleteCommit producer 1 epoch 3
        commit a epoch=2
            a: done already
        abort a epoch=2
            a abort: INVALID_TXN_STATE
        commit a
            a commit: INVALID_TXN_STATE
        commit a epoch=1
            a commit: PRODUCER_FENCED
        commit a epoch=9
            a commit: PRODUCER_FENCED
        abort a
            record PrepareAbort producer 1 epoch 4
            a: ok
    """)


def test_nothing_else_happens_until_the_markers_are_written(script):
    """Whoever asks meanwhile asks again: CONCURRENT_TRANSACTIONS, whatever epoch it has."""
    script.run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        add a p-0 p-1
            record Ongoing producer 1 epoch 0 [p-0 p-1]
            a add: ok
        commit a
            record PrepareCommit producer 1 epoch 1 [p-0 p-1]
            a: ok
        markers p-1
            marker p-1 commit epoch 1
        show
            PrepareCommit producer 1 epoch 1 [p-0] unfinished
        add a p-0
            a add: CONCURRENT_TRANSACTIONS
        check a p-0
            a check: CONCURRENT_TRANSACTIONS
        commit a
            a commit: CONCURRENT_TRANSACTIONS
        commit a epoch=0
            a commit: CONCURRENT_TRANSACTIONS
        init b
            b init: CONCURRENT_TRANSACTIONS
        init a epoch=1
            a init: CONCURRENT_TRANSACTIONS
        after 1000
        timeouts
        markers
            marker p-0 commit epoch 1
            record CompleteCommit producer 1 epoch 1
        init b
            record Empty producer 1 epoch 2
            b init: producer 1 epoch 2
    """)


def test_a_second_producer_fences_the_first(script):
    """Its open transaction is aborted under an epoch that nobody gets."""
    script.run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        add a p-0
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
        init b
            record PrepareAbort producer 1 epoch 1 [p-0]
            b init: CONCURRENT_TRANSACTIONS
        markers
            marker p-0 abort epoch 1
            record CompleteAbort producer 1 epoch 1
        init b
            record Empty producer 1 epoch 2
            b init: producer 1 epoch 2
        add a p-0
            a add: PRODUCER_FENCED
        check a p-0
            a check: PRODUCER_FENCED
        commit a
            a commit: PRODUCER_FENCED
        commit a v=1
            a commit: PRODUCER_FENCED
        init a epoch=0
            a init: PRODUCER_FENCED
    """)


def test_a_second_producer_fences_the_first_at_a_lower_level(new_script):
    """With transaction.version below 2 it is the fence that bumps the epoch."""
    new_script(transaction_version=1).run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        add a p-0 v=1
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
        init b
            record PrepareAbort producer 1 epoch 1 [p-0]
            b init: CONCURRENT_TRANSACTIONS
        markers
            marker p-0 abort epoch 1
            record CompleteAbort producer 1 epoch 1
        init b
            record Empty producer 1 epoch 2
            b init: producer 1 epoch 2
    """)


def test_the_newer_protocol_needs_the_newer_record(new_script):
    """With transaction.version 0 it is refused and changes nothing; the first protocol's isn't."""
    new_script(transaction_version=0).run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        abort a
            a abort: UNSUPPORTED_VERSION
        add a p-0
            a add: UNSUPPORTED_VERSION
        add a p-0 v=1
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
        commit a
            a commit: UNSUPPORTED_VERSION
        commit a v=1
            record PrepareCommit producer 1 epoch 0 [p-0]
            a: ok
    """)


def test_a_producer_that_says_who_it_was_goes_on(script):
    """KIP-360: with the epoch it has; a lost answer is given again; others are fenced."""
    script.run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        init a epoch=0
            record Empty producer 1 epoch 1
            a init: producer 1 epoch 1
        init a epoch=0
            record Empty producer 1 epoch 1
            a init: producer 1 epoch 1
        init b
            record Empty producer 1 epoch 2
            b init: producer 1 epoch 2
        init a epoch=1
            a init: PRODUCER_FENCED
        init a id=7 epoch=2
            a init: PRODUCER_FENCED
    """)


def test_an_id_that_was_forgotten_begins_with_a_new_producer(script):
    """A producer that says who it was gets a new id then."""
    script.run("""
        init a id=9 epoch=5
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
    """)


def test_who_is_not_known(script):
    """INVALID_PRODUCER_ID_MAPPING for an id nobody knows or that is another's; no empty ids."""
    script.run("""
        add a p-0
            a add: INVALID_PRODUCER_ID_MAPPING
        commit a
            a commit: INVALID_PRODUCER_ID_MAPPING
        abort a v=1
            a abort: INVALID_PRODUCER_ID_MAPPING
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        add a p-0 id=5
            a add: INVALID_PRODUCER_ID_MAPPING
        check a p-0 id=5
            a check: INVALID_PRODUCER_ID_MAPPING
        abort a id=5
            a abort: INVALID_PRODUCER_ID_MAPPING
        abort a id=5 v=1
            a abort: INVALID_PRODUCER_ID_MAPPING
        init a transactional=
            a init: INVALID_REQUEST
        add a p-0 transactional=
            a add: INVALID_REQUEST
        commit a transactional=
            a commit: INVALID_REQUEST
    """)


def test_a_timeout_must_be_one(script):
    """More than nothing, and not more than transaction.max.timeout.ms."""
    script.run("""
        init a timeout=0
            a init: INVALID_TRANSACTION_TIMEOUT
        init a timeout=901
            a init: INVALID_TRANSACTION_TIMEOUT
        init a timeout=900
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
    """)


def test_what_was_added_can_be_checked(script):
    """Brokers ask for older clients; at rest nothing is added."""
    script.run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        check a p-0
            no
        add a p-0
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
        check a p-0
            yes
        check a p-1
            no
    """)
