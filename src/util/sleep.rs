//! Sleeps between the rounds of a background task; they end early when the object of the task is gone.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The longest time for which a task outlives its object. Rounds can be hours apart, and each task keeps the memory of
/// its object.
const LOOK: Duration = Duration::from_secs(30);

/// Sleeps until `end`, or until soon after the last owner has dropped the object.
pub(crate) async fn sleep_while_owned<T>(object: &Weak<T>, end: Instant) {
    while object.strong_count() > 0 && Instant::now() < end {
        sleep_until(end.min(Instant::now() + LOOK)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_at_its_end_or_soon_after_its_object() {
        let begun = Instant::now();
        let object = Arc::new(());
        let (weak, hour) = (Arc::downgrade(&object), Duration::from_secs(3600));
        sleep_while_owned(&weak, begun + hour).await;
        assert_eq!(begun.elapsed(), hour);
        let sleeping =
            tokio::spawn(async move { sleep_while_owned(&weak, begun + 3 * hour).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(object);
        tokio::time::timeout(LOOK, sleeping)
            .await
            .expect("the task ends within the time of one look")
            .expect("it does not panic");
    }
}
