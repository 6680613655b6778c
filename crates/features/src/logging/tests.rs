//! What is kept, of whom, and how it is brought back.

use super::*;

fn settings(level: Option<Level>) -> ClassSettings {
    ClassSettings { level: Some(level), ..ClassSettings::default() }
}

fn texts(log: &Logging) -> Vec<String> {
    log.entries().into_iter().map(|entry| entry.text).collect()
}

/// With the classes of two capabilities.
fn log() -> Logging {
    const DHCP: Description = Description { log_classes: &[("dhcp", "dhcp")], ..Description::NONE };
    const IP4: Description = Description { log_classes: &[("ip4", "ip4")], ..Description::NONE };
    Logging::new(&[&DHCP, &IP4])
}

#[test]
fn a_class_keeps_what_its_level_says() {
    let log = log();
    log.set_class(By::Command, "dhcp", settings(Some(Level::Debug))).unwrap();
    log.set_class(By::Command, "ip4", settings(Some(Level::Disabled))).unwrap();
    for class in ["dhcp", "ip4", "cli"] {
        log.record(class, Level::Debug, "fine");
        log.record(class, Level::Error, "bad");
    }
    let kept: Vec<_> = log.entries().into_iter().map(|entry| (entry.class, entry.text)).collect();
    let pair = |class: &str, text: &str| (class.to_string(), text.to_string());
    assert_eq!(kept, [pair("dhcp", "fine"), pair("dhcp", "bad"), pair("cli", "bad")]);
}

#[test]
fn what_is_written_may_be_less_than_what_is_kept() {
    let log = log();
    assert!(log.writes("dhcp", Level::Notice));
    log.set_default_syslog_level(Some(Level::Error));
    assert!(!log.writes("dhcp", Level::Notice) && log.writes("dhcp", Level::Error));
    let own = ClassSettings { syslog_level: Some(Some(Level::Notice)), ..ClassSettings::default() };
    log.set_class(By::Startup, "dhcp", own).unwrap();
    assert!(log.writes("dhcp", Level::Notice) && !log.writes("ip4", Level::Notice));
}

#[test]
fn a_command_is_brought_back_and_what_startup_conf_says_is_not() {
    let log = log();
    assert!(log.configuration().is_empty());
    log.set_class(By::Startup, "dhcp", settings(Some(Level::Debug))).unwrap();
    log.set_size(By::Startup, Some(100));
    assert!(log.configuration().is_empty());
    log.set_class(By::Command, "dhcp", settings(Some(Level::Error))).unwrap();
    let own = ClassSettings { rate_limit: Some(Some(9)), ..settings(Some(Level::Info)) };
    log.set_class(By::Command, "ip4", own).unwrap();
    log.set_size(By::Command, Some(64));
    log.set_throttle_time(By::Command, Some(Duration::from_secs(7)));
    assert_eq!(
        log.configuration(),
        [
            "set logging size 64",
            "set logging unthrottle-time 7",
            "set logging class dhcp level err",
            "set logging class ip4 level info rate-limit 9",
        ]
    );
    // Back to what startup.conf says.
    log.set_class(By::Command, "dhcp", settings(None)).unwrap();
    log.set_class(By::Command, "ip4", ClassSettings { rate_limit: Some(None), ..settings(None) }).unwrap();
    log.set_size(By::Command, None);
    log.set_throttle_time(By::Command, None);
    assert!(log.configuration().is_empty());
    assert!(log.keeps("dhcp", Level::Debug) && !log.keeps("ip4", Level::Debug));
    assert_eq!(log.size(), 100);
}

#[test]
fn a_class_nobody_knows_is_refused_with_the_likely_one() {
    let log = log();
    let error = log.set_class(By::Command, "dhpc", settings(None)).unwrap_err().to_string();
    assert_eq!(error, "no log class 'dhpc'; did you mean 'dhcp'? (show logging configuration lists them)");
    // One that has spoken is known.
    log.record("newcomer", Level::Error, "hello");
    log.set_class(By::Command, "newcomer", settings(None)).unwrap();
}

#[test]
fn modules_without_end_do_not_fill_memory() {
    let log = log();
    for number in 0..1000 {
        log.record(&format!("class{number}"), Level::Error, "x");
    }
    assert_eq!(log.classes().len(), MAXIMUM_CLASSES);
    assert_eq!(log.entries().len(), DEFAULT_SIZE as usize);
}

#[test]
fn a_flood_is_counted_and_told_when_it_ends() {
    let log = log();
    let start = Instant::now();
    for number in 0..80 {
        log.record_at(SystemTime::now(), start, "dhcp", Level::Warning, &format!("neighbour {number}"));
    }
    assert_eq!(texts(&log).len(), 50);
    assert_eq!(log.suppressed(), [("dhcp".to_string(), 30)]);
    let later = start + DEFAULT_THROTTLE_TIME;
    let written = log.record_at(SystemTime::now(), later, "dhcp", Level::Notice, "calm");
    assert_eq!(written[0].text, "30 messages of this class were suppressed");
    assert_eq!(texts(&log).split_off(50), ["30 messages of this class were suppressed", "calm"]);
    assert!(log.suppressed().is_empty());
}

#[test]
fn a_smaller_log_forgets_its_oldest_entries_at_once() {
    let log = log();
    for number in 0..40 {
        log.record("dhcp", Level::Warning, &number.to_string());
    }
    log.set_size(By::Command, Some(16));
    assert_eq!((texts(&log).len(), texts(&log)[0].as_str()), (16, "24"));
    // Beyond the bounds is at them.
    log.set_size(By::Command, Some(1));
    assert_eq!(log.size(), 16);
}
