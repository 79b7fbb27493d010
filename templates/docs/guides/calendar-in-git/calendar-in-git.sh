cat > spring.yaml <<YAML
calendar: spring
zone: Europe/Berlin
defaults: { to: [$SOCIALPUB_ACCOUNT] }
posts:
  - id: opening
    at: 2099-03-30 09:00
    text: We open on Monday.
  - id: bread
    at: 2099-03-31 07:30
    text: Fresh bread, every day.
YAML
# What would change? This sends nothing, and ends with 3 where a post breaks a rule.
socialpub apply spring.yaml --check
# Write the plan, let somebody read it, and apply exactly that.
socialpub apply spring.yaml --out plan.json
socialpub apply plan.json
# Again: nothing is left to do.
socialpub apply spring.yaml
