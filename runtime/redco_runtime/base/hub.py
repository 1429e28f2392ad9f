"""Hugging Face's hub, and a machine that does not reach it."""

SECONDS = 5.0  # that an answer may take: its libraries try six times, in half a minute


def use_cache_without_network() -> str:
    """Make Hugging Face's libraries read their cache alone where the hub does not answer.

    Returns why a name that is not in the cache cannot be read; "" where the hub answers.
    """
    from huggingface_hub import constants, get_session  # late: it takes a while

    if not constants.HF_HUB_OFFLINE:
        try:
            get_session().head(constants.ENDPOINT, timeout=SECONDS)
            return ""
        except Exception:  # of its library of HTTP, which is one or the other by version
            constants.HF_HUB_OFFLINE = True
    return f"{constants.ENDPOINT} is not reached, and no copy of it is in {constants.HF_HUB_CACHE}"
