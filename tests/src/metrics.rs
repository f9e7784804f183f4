//! Reads figures from a running gateway's `/metrics`.

/// The sum of a metric over its labels, or of those lines that contain `label`.
pub async fn value(client: &reqwest::Client, http: &str, name: &str, label: &str) -> f64 {
    let Ok(answer) = client.get(format!("http://{http}/metrics")).send().await else { return f64::NAN };
    of_text(&answer.text().await.unwrap_or_default(), name, label)
}

/// The same of a text that was read before.
pub fn of_text(text: &str, name: &str, label: &str) -> f64 {
    text.lines()
        .filter(|line| {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            &line[..end] == name && line.contains(label)
        })
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
