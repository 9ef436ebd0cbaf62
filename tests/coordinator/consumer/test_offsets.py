"""Who may commit and fetch offsets of a consumer group, as text scripts."""


def test_members_commit_at_their_epoch(script):
    """Or at an older one what they had then; nobody else may."""
    script.run(
        """
        topics t=4
        commit a t:0 epoch=-1
            may commit
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1,2,3
        commit a t:0
            may commit
        commit a t:0 version=8
            UNSUPPORTED_VERSION
        commit a t:0 epoch=3
            STALE_MEMBER_EPOCH
        commit a t:0 epoch=1
            STALE_MEMBER_EPOCH
        commit stranger t:0
            UNKNOWN_MEMBER_ID
        commit nobody t:0 epoch=-1
            UNKNOWN_MEMBER_ID
        fetch a
            may fetch
        fetch a epoch=1
            STALE_MEMBER_EPOCH
        fetch stranger
            UNKNOWN_MEMBER_ID
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        beat a
            a: epoch 2 has t:0,1
        commit a t:0,1
            may commit
        commit a t:2 epoch=2
            may commit
        beat a
            a: epoch 3
        commit a t:0 epoch=2
            may commit
        commit a t:2 epoch=2
            STALE_MEMBER_EPOCH
        beat b
            b: epoch 3 has t:2,3
        commit b t:2 epoch=2
            STALE_MEMBER_EPOCH
        """
    )


def test_classic_members_commit_by_generation(script):
    """With the errors of their protocol; a group with members isn't deleted."""
    script.run(
        """
        topics t=4
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1,2,3
        old_join x id=x
            x joins with the classic protocol
            assigned at epoch 3 to 2 members, uniform
            x: x generation 3 range
        commit x t:0 epoch=9
            ILLEGAL_GENERATION
        commit x t:0 version=5
            may commit
        commit x t:0 epoch=1
            ILLEGAL_GENERATION
        delete
            NON_EMPTY_GROUP
        """
    )
