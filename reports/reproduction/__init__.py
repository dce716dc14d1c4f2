"""What somebody without icequake needs to see a defect: one script, and the text for a tracker."""
